from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from fedaigc.fingerprint import (
    canonical_text,
    commitment,
    commitment_opens,
    fingerprint_bytes,
    fingerprint_text,
    month_of,
    new_salt,
    query_tag,
    tag_key,
)

RECORD = {"request": "chatcmpl-1", "policy": 3}


def test_the_published_blake3_of_ietf_is_reproduced() -> None:
    # C2SP BLAKE3/v1.0.0, first trace.
    assert blake3(b"IETF").hexdigest().startswith("83a2de1e")
    assert fingerprint_text("IETF").raw == blake3(b"IETF").digest()


def test_copy_and_paste_changes_the_raw_but_not_the_canonical_fingerprint() -> None:
    first = fingerprint_text("Answer:  ｆｕｌｌ width\r\nand\u200b zero width")
    second = fingerprint_text(" Answer: full width and zero width\n")
    assert first.raw != second.raw
    assert first.canonical == second.canonical


def test_one_changed_character_changes_both() -> None:
    first, second = fingerprint_text("国家标准"), fingerprint_text("国家标谁")
    assert first.raw != second.raw
    assert first.canonical != second.canonical


@given(st.text())
def test_the_canonical_form_is_a_fixed_point(text: str) -> None:
    once = canonical_text(text)
    assert canonical_text(once) == once


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_file_of_utf8_text_has_the_text_s_fingerprint(text: str) -> None:
    assert fingerprint_bytes(text.encode("utf-8")) == fingerprint_text(text)


def test_bytes_that_are_not_text_have_one_fingerprint() -> None:
    picture = fingerprint_bytes(b"\x89PNG\xff")
    assert picture.raw == picture.canonical


@given(st.binary(min_size=1, max_size=64), st.integers(0, 255))
def test_a_commitment_opens_only_with_its_own_parts(content: bytes, change: int) -> None:
    salt, mark = new_salt(), fingerprint_bytes(content)
    value = commitment(salt, mark, RECORD)
    assert commitment_opens(value, salt, mark, RECORD)
    assert not commitment_opens(value, new_salt(), mark, RECORD)
    assert not commitment_opens(value, salt, fingerprint_bytes(content + bytes([change])), RECORD)
    assert not commitment_opens(value, salt, mark, {**RECORD, "policy": 4})


def test_equal_content_has_unlinkable_commitments() -> None:
    mark = fingerprint_text("yes")
    assert commitment(new_salt(), mark, RECORD) != commitment(new_salt(), mark, RECORD)


def test_tags_of_two_months_or_tenants_are_unlinkable() -> None:
    digest = fingerprint_text("yes").canonical
    tags = {
        query_tag(tag_key(tenant, month), digest)
        for tenant in (b"a" * 32, b"b" * 32)
        for month in ("2026-11", "2026-12")
    }
    assert len(tags) == 4
    assert {len(tag) for tag in tags} == {16}


def test_the_month_is_counted_in_utc() -> None:
    shanghai = timezone(timedelta(hours=8))
    assert month_of(datetime(2026, 12, 1, 3, 0, tzinfo=shanghai)) == "2026-11"
    assert month_of(datetime(2026, 12, 1, 3, 0, tzinfo=UTC)) == "2026-12"


def test_no_log_line_can_show_a_fingerprint() -> None:
    mark = fingerprint_text("secret")
    assert mark.raw.hex() not in repr(mark)
    assert str(mark.raw) not in repr(mark)
