"""The enrolment file: whole or absent, private, checked when read."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from fedaigc.errors import IdentityError, VerificationFailed
from fedaigc.sealing import SealingKey
from fedaigc_edge.enrolment import ENROLMENT_FILE, Enrolment, is_enrolled
from tests.edge.enrolled import enrol_answer, enrolled


def test_an_enrolment_reads_back_as_it_was_and_is_private(tmp_path: Path) -> None:
    assert not is_enrolled(tmp_path)
    enrolment = enrolled(tmp_path)
    assert is_enrolled(tmp_path)
    assert Enrolment.load(tmp_path) == enrolment
    assert stat.S_IMODE((tmp_path / ENROLMENT_FILE).stat().st_mode) == 0o600


def test_a_device_that_never_joined_is_told_how(tmp_path: Path) -> None:
    with pytest.raises(IdentityError, match="fedaigc-edge join"):
        Enrolment.load(tmp_path)


@pytest.mark.parametrize("field", ["node", "address", "log_vkey", "release_key", "tenant_key", "poll_s", "v"])
def test_a_file_without_a_field_is_called_damaged(tmp_path: Path, field: str) -> None:
    enrolled(tmp_path)
    path = tmp_path / ENROLMENT_FILE
    record = json.loads(path.read_text())
    del record[field]
    path.write_text(json.dumps(record))
    with pytest.raises(IdentityError, match="damaged"):
        Enrolment.load(tmp_path)


def test_half_a_file_is_called_damaged(tmp_path: Path) -> None:
    enrolled(tmp_path)
    path = tmp_path / ENROLMENT_FILE
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(IdentityError, match="damaged"):
        Enrolment.load(tmp_path)


@pytest.mark.parametrize(
    "change", [{"node": "n-x"}, {"release_key": "AA=="}, {"poll_s": None}, {"node": None}]
)
def test_a_malformed_answer_is_refused(change: dict[str, object]) -> None:
    answer = enrol_answer(SealingKey.generate().public.text()) | change
    with pytest.raises(VerificationFailed):
        Enrolment.from_answer(answer, "a:1", "n", "r", "t")
