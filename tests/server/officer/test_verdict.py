from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedaigc.canonical import canonical_bytes
from fedaigc.errors import FedaigcError, LedgerError, VerificationFailed
from fedaigc.fingerprint import fingerprint_text
from fedaigc.sealing import SealingKey
from fedaigc.signed_note import LogSigner
from fedaigc.signing import SigningKey, b64
from fedaigc_server.ledger.ledger import Ledger
from fedaigc_server.ledger.search import officer_search
from fedaigc_server.officer.verdict import Opening, SearchVerdict, compare, judge_search
from tests.server.officer.device import MINUTE, NODE, Device

TEXT = "The committee approved the plan on Tuesday."
COPIED = "The  committee approved\nthe plan on \u200bTuesday. "
SIGNER = LogSigner("ledger.example", SigningKey.generate())
DEVICE = Device()


@pytest.fixture
def ledger(tmp_path: Path) -> Any:
    with Ledger.open(tmp_path / "ledger.db", SIGNER) as opened:
        yield opened


def ask(ledger: Ledger, item: Any) -> dict[str, Any]:
    return officer_search(ledger, "case", [tag.hex() for tag in item.tags], MINUTE)


def judged(answer: dict[str, Any], text: str = TEXT, tenant: SealingKey = DEVICE.tenant) -> SearchVerdict:
    return judge_search(answer, fingerprint_text(text), tenant, SIGNER.vkey())


def test_the_same_bytes_are_exact_and_a_copy_with_other_spaces_is_canonical(ledger: Ledger) -> None:
    item = DEVICE.output(TEXT, 1)
    ledger.append_outputs(NODE, [item])
    exact = judged(ask(ledger, item))
    assert (exact.verdict, len(exact.proven), exact.unproven) == ("exact", 1, ())
    assert exact.proven[0].record["request"] == f"chatcmpl-{1:024x}"
    copied = judged(ask(ledger, item), COPIED)
    assert (copied.verdict, copied.proven[0].index, copied.checkpoint.size) == ("canonical", 0, 3)


def test_no_match_is_a_verdict_with_a_checkpoint(ledger: Ledger) -> None:
    found = judged(ask(ledger, DEVICE.output("never generated", 1)))
    assert (found.verdict, found.proven, found.unproven, found.total) == ("no match", (), (), 0)
    assert found.checkpoint.size == 1


def test_the_best_of_several_matches_is_the_verdict(ledger: Ledger) -> None:
    copied, exact = DEVICE.output(COPIED, 1), DEVICE.output(TEXT, 2)
    ledger.append_outputs(NODE, [copied, exact])
    found = judged(ask(ledger, exact))
    assert [match.verdict for match in found.proven] == ["canonical", "exact"]
    assert found.verdict == "exact"


def test_an_erased_opening_proves_nothing_and_is_no_false_alarm(ledger: Ledger) -> None:
    item = DEVICE.output(TEXT, 1)
    ledger.append_outputs(NODE, [item])
    answer = ask(ledger, item)
    answer["matches"][0]["opening"] = None
    found = judged(answer)
    assert (found.verdict, found.unproven[0].erased, found.false_alarms) == ("no match", True, ())


def junk(match: dict[str, Any]) -> dict[str, Any]:
    return {**match, "opening": b64(b"junk" * 40)}


FORGERIES: list[Callable[[dict[str, Any]], Any]] = [
    junk,
    lambda match: {**match, "opening": "?"},
    lambda match: {**match, "opening": 7},
    lambda match: {**match, "index": 1},
    lambda match: {**match, "index": True},
    lambda match: {**match, "index": None},
    lambda match: {**match, "receipt": match["receipt"].replace("index 0", "index 1")},
    lambda match: {**match, "receipt": "\ud800"},
    lambda match: {**match, "receipt": None},
    lambda match: {},
    lambda match: "match",
]


@pytest.mark.parametrize("forge", FORGERIES, ids=range(len(FORGERIES)))
def test_a_forged_match_is_set_apart_as_a_false_alarm_and_never_counted(
    ledger: Ledger, forge: Callable[[dict[str, Any]], Any]
) -> None:
    item = DEVICE.output(TEXT, 1)
    ledger.append_outputs(NODE, [item])
    answer = ask(ledger, item)
    good = answer["matches"][0]
    found = judged({**answer, "matches": [forge(good)]})
    assert (found.verdict, len(found.false_alarms)) == ("no match", 1)
    both = judged({**answer, "matches": [forge(good), good]})
    assert (both.verdict, len(both.false_alarms)) == ("exact", 1)


def test_a_node_that_tags_its_output_as_another_text_frames_nobody(ledger: Ledger) -> None:
    real, framed = DEVICE.output(TEXT, 1), DEVICE.output("something else", 1)
    ledger.append_outputs(NODE, [replace(framed, tags=real.tags)])
    found = judged(ask(ledger, real))
    assert (found.verdict, len(found.false_alarms)) == ("no match", 1)


def test_an_opening_moved_to_another_entry_does_not_open_its_commitment(ledger: Ledger) -> None:
    real, other = DEVICE.output(TEXT, 1), DEVICE.output("something else", 2)
    ledger.append_outputs(NODE, [replace(other, tags=real.tags, opening=real.opening)])
    found = judged(ask(ledger, real))
    assert (found.verdict, "commits to" in found.false_alarms[0].why) == ("no match", True)


def test_an_entry_that_contradicts_its_sealed_record_is_not_proven(ledger: Ledger) -> None:
    item = DEVICE.output(TEXT, 1, policy=4)
    ledger.append_outputs(NODE, [item])
    assert "contradict" in judged(ask(ledger, item)).false_alarms[0].why


def test_an_entry_of_another_kind_is_not_an_output(ledger: Ledger) -> None:
    item = DEVICE.output(TEXT, 1)
    ledger.append_outputs(NODE, [item])
    answer = ask(ledger, item)
    forged = {**answer["matches"][0], "index": 1, "receipt": ledger.receipt(1)}
    assert "not an output" in judged({**answer, "matches": [forged]}).false_alarms[0].why


def test_another_tenants_key_opens_nothing(ledger: Ledger) -> None:
    item = DEVICE.output(TEXT, 1)
    ledger.append_outputs(NODE, [item])
    assert judged(ask(ledger, item), tenant=SealingKey.generate()).verdict == "no match"


def test_an_answer_without_a_valid_checkpoint_is_no_answer(ledger: Ledger) -> None:
    answer = ask(ledger, DEVICE.output(TEXT, 1))
    other = LogSigner(SIGNER.name, SigningKey.generate()).sign_checkpoint(1, bytes(32))
    for forged in ({"checkpoint": other}, {"checkpoint": answer["checkpoint"].replace("\n1\n", "\n2\n")}):
        with pytest.raises(VerificationFailed):
            judged({**answer, **forged})
    wrong: list[dict[str, Any]] = [{"matches": None}, {"matches": [{}] * 1001}, {"checkpoint": None}]
    for malformed in wrong:
        with pytest.raises(LedgerError):
            judged({**answer, **malformed})


def test_an_opening_of_another_form_is_refused() -> None:
    good = {"salt": b64(bytes(32)), "raw": b64(bytes(32)), "canonical": b64(bytes(32)), "record": {}}
    sealed = DEVICE.tenant.public.seal("opening", canonical_bytes(good))
    assert Opening.unseal(sealed, DEVICE.tenant).record == {}
    wrong: list[dict[str, Any]] = [{"salt": b64(bytes(31))}, {"raw": 7}, {"record": []}, {"more": 1}]
    for change in wrong:
        sealed = DEVICE.tenant.public.seal("opening", canonical_bytes({**good, **change}))
        with pytest.raises(FedaigcError):
            Opening.unseal(sealed, DEVICE.tenant)
    with pytest.raises(VerificationFailed):
        Opening.unseal(DEVICE.tenant.public.seal("tag-key", canonical_bytes(good)), DEVICE.tenant)


def test_two_texts_compare_by_bytes_first_then_by_text() -> None:
    assert compare(fingerprint_text(TEXT), fingerprint_text(TEXT)) == "exact"
    assert compare(fingerprint_text(TEXT), fingerprint_text(COPIED)) == "canonical"
    assert compare(fingerprint_text(TEXT), fingerprint_text(TEXT.upper())) == "no match"
