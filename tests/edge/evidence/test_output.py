"""What is sealed opens to the officer and says nothing to anybody else."""

from __future__ import annotations

import json

import pytest

from fedaigc.errors import VerificationFailed
from fedaigc.fingerprint import Fingerprint, commitment_opens, fingerprint_text
from fedaigc.identifiers import NodeId
from fedaigc.ledger_entry import LedgerEntry
from fedaigc.signing import b64, unb64
from fedaigc_edge.evidence.output import OPENING_PURPOSE, month_of_minute, seal_output, tokens_bucket
from tests.edge.evidence.small_ledger import NODE, TENANT, output

SALT = bytes(range(32))
TEXT = "Guten Tag, Frau Müller, Ihre Rechnung beträgt 120 €."


def test_the_opening_opens_the_commitment_in_the_entry() -> None:
    sealed = seal_output(output(1, TEXT), NODE, 5, 29_900_000, SALT, TENANT.public)
    entry = LedgerEntry.from_bytes(sealed.entry)
    opening = json.loads(TENANT.open(OPENING_PURPOSE, sealed.opening))
    fingerprint = Fingerprint(unb64(opening["raw"]), unb64(opening["canonical"]))
    assert fingerprint == fingerprint_text(TEXT)
    assert commitment_opens(
        unb64(str(entry.body["commitment"])), unb64(opening["salt"]), fingerprint, opening["record"]
    )
    assert opening["record"]["request"] == "chatcmpl-" + f"{1:024x}"
    assert opening["record"]["seq"] == entry.body["seq"] == 5


def test_neither_text_nor_plain_hash_leaves() -> None:
    sealed = seal_output(output(1, TEXT), NODE, 5, 29_900_000, SALT, TENANT.public)
    leaving = sealed.entry + sealed.opening
    fingerprint = fingerprint_text(TEXT)
    for secret in (fingerprint.raw, fingerprint.canonical, SALT, TEXT.encode()):
        for form in (secret, secret.hex().encode(), b64(secret).encode()):
            assert form not in leaving
    assert "Müller" not in repr(sealed)
    assert "Müller" not in repr(output(1, TEXT))


def test_two_equal_outputs_look_unrelated() -> None:
    one = seal_output(output(1, TEXT), NODE, 5, 29_900_000, SALT, TENANT.public)
    two = seal_output(output(1, TEXT), NODE, 5, 29_900_000, SALT[::-1], TENANT.public)
    assert one.commitment != two.commitment
    assert len(one.entry) == len(two.entry)


def test_a_malformed_fact_is_refused() -> None:
    with pytest.raises(VerificationFailed):
        seal_output(output(1), NodeId("nobody"), 5, 29_900_000, SALT, TENANT.public)


@pytest.mark.parametrize(("tokens", "bucket"), [(0, 0), (1, 1), (2, 2), (3, 4), (64, 64), (65, 128)])
def test_a_length_is_recorded_as_a_power_of_two(tokens: int, bucket: int) -> None:
    assert tokens_bucket(tokens) == bucket


def test_the_month_is_utcs() -> None:
    last_minute_of_2026 = 1_798_761_600 // 60 - 1
    assert month_of_minute(last_minute_of_2026) == "2026-12"
    assert month_of_minute(last_minute_of_2026 + 1) == "2027-01"
