"""A server and its officer's folder belong together: a wrong pair is refused, and says which is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedaigc.errors import IdentityError
from fedaigc.signed_note import LogSigner
from fedaigc_server.identity import load_identity, write_officer_file
from fedaigc_server.stores import log_name


def _started(data: Path, officer: Path) -> bytes:
    """A first start as far as identities go; the officer.json that it left."""
    identity = load_identity(data, officer)
    vkey = LogSigner(log_name(identity), identity.log_key).vkey()
    write_officer_file(officer, "http://127.0.0.1:1", vkey, data / "keys" / "ca.crt")
    return (officer / "officer.json").read_bytes()


def test_a_second_server_is_refused_the_first_ones_folder_and_changes_nothing_in_it(tmp_path: Path) -> None:
    officer = tmp_path / "officer"
    before = _started(tmp_path / "one", officer)
    with pytest.raises(IdentityError, match=r"another server.*--officer FOLDER"):
        load_identity(tmp_path / "two", officer)
    assert (officer / "officer.json").read_bytes() == before
    assert not (tmp_path / "two" / "keys" / "log.key").exists()


def test_a_first_start_that_was_cut_short_has_claimed_its_folder_already(tmp_path: Path) -> None:
    load_identity(tmp_path / "one", tmp_path / "officer")
    (tmp_path / "one" / "keys" / "tenant.pub").unlink()
    with pytest.raises(IdentityError, match="another server"):
        load_identity(tmp_path / "two", tmp_path / "officer")
    load_identity(tmp_path / "one", tmp_path / "officer")


def test_a_folder_of_an_older_version_is_known_by_its_officer_json(tmp_path: Path) -> None:
    _started(tmp_path / "one", tmp_path / "officer")
    (tmp_path / "officer" / "log.pub").unlink()
    with pytest.raises(IdentityError, match="another server"):
        load_identity(tmp_path / "two", tmp_path / "officer")
    load_identity(tmp_path / "one", tmp_path / "officer")
    assert (tmp_path / "officer" / "log.pub").exists()


def test_crossed_pairs_are_refused_both_ways_and_name_the_right_folder(tmp_path: Path) -> None:
    for name in ("one", "two"):
        _started(tmp_path / name, tmp_path / f"officer-{name}")
    for name, other in (("one", "two"), ("two", "one")):
        with pytest.raises(IdentityError, match=f"--officer {tmp_path}/officer-{name}"):
            load_identity(tmp_path / name, tmp_path / f"officer-{other}")
        load_identity(tmp_path / name, tmp_path / f"officer-{name}")


def test_an_empty_folder_is_not_filled_with_new_keys_by_a_server_that_has_one(tmp_path: Path) -> None:
    _started(tmp_path / "one", tmp_path / "officer")
    with pytest.raises(IdentityError, match=f"none of the officer's keys.*--officer {tmp_path}/officer"):
        load_identity(tmp_path / "one", tmp_path / "elsewhere")
    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_that_was_moved_is_accepted_and_named_from_then_on(tmp_path: Path) -> None:
    _started(tmp_path / "one", tmp_path / "officer")
    (tmp_path / "officer").rename(tmp_path / "moved")
    load_identity(tmp_path / "one", tmp_path / "moved")
    with pytest.raises(IdentityError, match=f"--officer {tmp_path}/moved"):
        load_identity(tmp_path / "one", tmp_path / "officer")


def test_a_tenants_key_of_another_server_is_refused_though_nothing_else_names_it(tmp_path: Path) -> None:
    _started(tmp_path / "one", tmp_path / "officer")
    _started(tmp_path / "two", tmp_path / "other")
    for name in ("log.pub", "officer.json"):
        (tmp_path / "other" / name).unlink()
    with pytest.raises(IdentityError, match="another server"):
        load_identity(tmp_path / "one", tmp_path / "other")


def test_a_damaged_officer_json_is_no_reason_to_refuse_ones_own_folder(tmp_path: Path) -> None:
    _started(tmp_path / "one", tmp_path / "officer")
    (tmp_path / "officer" / "officer.json").write_text("{")
    load_identity(tmp_path / "one", tmp_path / "officer")


def test_a_first_start_refuses_a_folder_that_is_damaged_beyond_telling_whose_it_is(tmp_path: Path) -> None:
    (tmp_path / "officer").mkdir()
    (tmp_path / "officer" / "officer.json").touch(0o600)
    with pytest.raises(IdentityError, match="another server"):
        load_identity(tmp_path / "one", tmp_path / "officer")
