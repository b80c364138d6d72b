from __future__ import annotations

import io
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fedaigc.errors import RequestInvalid, StorageError
from fedaigc.fingerprint import fingerprint_text, query_tag, tag_key
from fedaigc_server.officer import content
from fedaigc_server.officer.content import fingerprint_content, months_until, tags_of

KEY = bytes(range(32))


def test_a_file_and_standard_input_have_the_fingerprint_of_their_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "Guten Tag \u2014 \u4f60\u597d"
    (tmp_path / "letter.txt").write_text(text, encoding="utf-8")
    assert fingerprint_content(str(tmp_path / "letter.txt")) == fingerprint_text(text)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert fingerprint_content("-") == fingerprint_text(text)


def test_content_beyond_the_limit_is_refused_without_reading_it_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content, "MAX_CONTENT_BYTES", 1000)
    (tmp_path / "exact").write_bytes(b"x" * 1000)
    (tmp_path / "over").write_bytes(b"x" * 1001)
    fingerprint_content(str(tmp_path / "exact"))
    with pytest.raises(RequestInvalid, match="1000 bytes"):
        fingerprint_content(str(tmp_path / "over"))


@pytest.mark.parametrize("text", ["", " \n\t", "\u200b\ufeff"])
def test_blank_content_is_refused_because_it_would_match_every_empty_answer(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / "blank").write_text(text, encoding="utf-8")
    with pytest.raises(RequestInvalid, match="blank"):
        fingerprint_content(str(tmp_path / "blank"))


def test_content_that_cannot_be_read_is_a_storage_error(tmp_path: Path) -> None:
    for missing in (tmp_path / "absent", tmp_path):
        with pytest.raises(StorageError):
            fingerprint_content(str(missing))


def test_thirteen_months_are_this_one_the_twelve_before_and_the_coming_one() -> None:
    months = months_until(datetime(2026, 12, 1, tzinfo=UTC), 13)
    assert (months[0], months[-2], months[-1], len(months)) == ("2025-12", "2026-12", "2027-01", 14)
    assert months_until(datetime(2026, 1, 31, tzinfo=UTC), 2) == ["2025-12", "2026-01", "2026-02"]


def test_every_content_has_two_tags_a_month_and_they_are_the_devices() -> None:
    months = ["2026-11", "2026-12"]
    for text in ("one", "two  words"):
        content = fingerprint_text(text)
        tags = tags_of(content, KEY, months)
        assert len(set(tags)) == len(tags) == 4 and tags == sorted(tags)
        for month in months:
            for digest in (content.raw, content.canonical):
                assert query_tag(tag_key(KEY, month), digest) in tags
