from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedaigc.errors import IdentityError
from fedaigc.sealing import SealingKey
from fedaigc_server.identity import load_identity, superexec_secret, write_officer_file


def test_a_first_start_makes_every_key_private_and_the_next_reads_the_same(tmp_path: Path) -> None:
    data, officer = tmp_path / "server", tmp_path / "officer"
    first, second = load_identity(data, officer), load_identity(data, officer)
    assert first.log_key.public == second.log_key.public
    assert first.release_key.public == second.release_key.public
    assert first.operator_token == second.operator_token != first.officer_token
    assert first.tenant_key == SealingKey.load(officer / "tenant.key").public
    secret = [*(data / "keys").glob("*.key"), data / "keys" / "operator.token", *officer.iterdir()]
    assert {path.stat().st_mode & 0o777 for path in secret} == {0o600}


def test_repr_shows_no_secret(tmp_path: Path) -> None:
    identity = load_identity(tmp_path / "server", tmp_path / "officer")
    shown = repr(identity)
    for secret in (identity.operator_token, identity.officer_token, repr(identity.tag_key)):
        assert secret not in shown


def test_a_killed_first_start_is_finished_by_the_next(tmp_path: Path) -> None:
    data, officer = tmp_path / "server", tmp_path / "officer"
    kept = load_identity(data, officer)
    (data / "keys" / "tenant.pub").unlink()
    (officer / "officer.token").unlink()
    assert load_identity(data, officer).log_key.public == kept.log_key.public


@pytest.mark.parametrize("name", ["server/keys/log.key", "server/keys/release.key", "officer/tag.key"])
def test_a_key_that_was_lost_later_is_not_made_anew(tmp_path: Path, name: str) -> None:
    load_identity(tmp_path / "server", tmp_path / "officer")
    (tmp_path / name).unlink()
    with pytest.raises(IdentityError, match="missing"):
        load_identity(tmp_path / "server", tmp_path / "officer")


def test_a_token_that_others_can_read_is_refused(tmp_path: Path) -> None:
    load_identity(tmp_path / "server", tmp_path / "officer")
    (tmp_path / "server" / "keys" / "operator.token").chmod(0o644)
    with pytest.raises(IdentityError, match="read by other users"):
        load_identity(tmp_path / "server", tmp_path / "officer")


def test_the_superexec_secret_is_made_once(tmp_path: Path) -> None:
    assert superexec_secret(tmp_path).read_bytes() == superexec_secret(tmp_path).read_bytes()


def test_the_officer_is_told_where_to_ask_and_whom_to_trust(tmp_path: Path) -> None:
    write_officer_file(tmp_path, "http://127.0.0.1:1", "log+1+key", tmp_path / "ca.crt")
    record = json.loads((tmp_path / "officer.json").read_text())
    assert record["admin_url"] == "http://127.0.0.1:1"
    assert record["log_vkey"] == "log+1+key"
