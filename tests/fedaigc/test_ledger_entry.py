from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaigc.canonical import canonical_bytes
from fedaigc.errors import VerificationFailed
from fedaigc.ledger_entry import KINDS, MAX_ENTRY_BYTES, LedgerEntry
from fedaigc.signing import b64

NODE = "n-0123456789abcdef"
OUTPUT: dict[str, Any] = {
    "seq": 1,
    "commitment": b64(bytes(32)),
    "policy": 0,
    "rules": "0" * 16,
    "model": "f" * 16,
    "labels": 0,
    "media": "text",
}
BODIES: dict[str, dict[str, Any]] = {
    "output": OUTPUT,
    "enrolment": {"signing_key": b64(bytes(32)), "region": "eu-west"},
    "revocation": {"reason": "lost device"},
    "update": {
        "round": "r-0123456789abcdef",
        "parent": 0,
        "payload": "0" * 64,
        "fingerprint_root": b64(bytes(32)),
        "epsilon": "0.412",
        "delta": "1e-5",
        "accepted": True,
        "reason": "",
    },
    "policy": {
        "version": 1,
        "parent": 0,
        "manifest": "0" * 64,
        "round": "r-0123456789abcdef",
        "updates": 2,
    },
    "officer_query": {"case": "unstated", "tags": 28, "matches": 0},
}
MINUTE = 29_900_000


def entry_of(kind: str, **changes: Any) -> LedgerEntry:
    return LedgerEntry(kind, NODE, MINUTE, {**BODIES[kind], **changes})


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_entry_comes_back_as_it_was_written(kind: str) -> None:
    entry = entry_of(kind)
    assert LedgerEntry.from_bytes(entry.to_bytes()) == entry
    assert LedgerEntry.from_bytes(replace(entry, node=None).to_bytes()).node is None


@given(st.text(max_size=500).filter(lambda text: text.isprintable()), st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_an_entrys_length_is_a_power_of_two_from_256(reason: str, minute: int) -> None:
    data = LedgerEntry("revocation", NODE, minute, {"reason": reason}).to_bytes()
    assert len(data) in (256, 512, 1024, 2048, 4096)
    assert LedgerEntry.from_bytes(data).body == {"reason": reason}


def test_two_outputs_of_one_device_have_the_same_length_whatever_they_say() -> None:
    assert {len(entry_of("output", labels=n, seq=n).to_bytes()) for n in (0, 99, 9_999)} == {256}


def test_text_that_looks_like_the_padding_does_not_confuse_the_padding() -> None:
    entry = entry_of("revocation", reason='","pad":"","v":1}')
    assert LedgerEntry.from_bytes(entry.to_bytes()) == entry


@pytest.mark.parametrize(
    "change",
    [
        {"note": "the words of the answer"},
        {"commitment": "the words of the answer"},
        {"commitment": b64(bytes(31))},
        {"rules": "the words of the"},
        {"model": "F" * 16},
        {"media": "words"},
        {"seq": -1},
        {"seq": True},
        {"seq": 1.5},
        {"labels": 2**32 + 1},
        {"policy": "0"},
    ],
)
def test_no_field_of_an_output_can_carry_words(change: dict[str, Any]) -> None:
    with pytest.raises(VerificationFailed) as caught:
        entry_of("output", **change)
    assert "the words" not in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_body_with_a_field_too_few_or_too_many_is_refused(kind: str) -> None:
    with pytest.raises(VerificationFailed):
        entry_of(kind, more=1)
    for name in BODIES[kind]:
        with pytest.raises(VerificationFailed):
            LedgerEntry(kind, NODE, MINUTE, {k: v for k, v in BODIES[kind].items() if k != name})


def test_an_unknown_kind_node_or_minute_is_refused() -> None:
    with pytest.raises(VerificationFailed, match="unknown kind"):
        LedgerEntry("rumour", NODE, MINUTE, {})
    with pytest.raises(VerificationFailed):
        LedgerEntry("revocation", "kitchen", MINUTE, BODIES["revocation"])
    for minute in (-1, 2**33, True):
        with pytest.raises(VerificationFailed):
            LedgerEntry("revocation", NODE, minute, BODIES["revocation"])
    with pytest.raises(VerificationFailed):
        entry_of("update", accepted="yes")


def other_spellings() -> list[bytes]:
    data = entry_of("output").to_bytes()
    record = json.loads(data)
    return [
        data[:-1],
        data + b" ",
        data.replace(b'"v":1', b'"v":2'),
        data.replace(b'"v":1', b'"v":true').replace(b'"pad":"000', b'"pad":"'),
        canonical_bytes({**record, "pad": record["pad"] + "0"}),
        canonical_bytes({**record, "pad": "words" + record["pad"][5:]}),
        canonical_bytes({**record, "note": ""}),
        canonical_bytes({**record, "minute": "1"}),
        canonical_bytes({**record, "node": 7}),
        canonical_bytes({**record, "body": []}),
        canonical_bytes([record]),
        json.dumps(record).encode(),
        b"",
        b"\xff" * 256,
        b"[" * 5_000,
        b"0" * (MAX_ENTRY_BYTES + 1),
    ]


@pytest.mark.parametrize("data", other_spellings(), ids=range(len(other_spellings())))
def test_bytes_that_are_not_the_one_form_of_an_entry_are_refused(data: bytes) -> None:
    with pytest.raises(VerificationFailed):
        LedgerEntry.from_bytes(data)


def test_a_text_beyond_its_limit_is_refused() -> None:
    with pytest.raises(VerificationFailed):
        entry_of("revocation", reason="x" * 501)
