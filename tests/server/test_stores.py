from __future__ import annotations

from pathlib import Path

import pytest

from fedaigc.errors import StorageError, VerificationFailed
from fedaigc.ledger_entry import LedgerEntry
from fedaigc.signing import SigningKey
from fedaigc_server.identity import ServerIdentity, load_identity
from fedaigc_server.stores import log_name, open_stores
from tests.server.conftest import Site


def _identity(root: Path) -> ServerIdentity:
    return load_identity(root / "server", root / "officer")


def test_everything_is_there_again_after_a_restart(site: Site) -> None:
    device = site.enrolled()
    again = site.reopened()
    assert again.stores.registry.node(device.node) is not None
    assert again.stores.ledger.size == 1
    site.stores = again.stores


def test_the_logs_name_belongs_to_its_key_and_not_to_an_address(tmp_path: Path) -> None:
    identity = _identity(tmp_path)
    assert log_name(identity) == log_name(_identity(tmp_path))
    assert log_name(identity) != log_name(_identity(tmp_path / "another"))


def test_a_ledger_that_another_key_signed_is_not_opened(tmp_path: Path) -> None:
    identity = _identity(tmp_path)
    stores = open_stores(tmp_path / "server", identity)
    stores.ledger.append(
        [LedgerEntry("officer_query", None, 1, {"case": "x", "tags": 1, "matches": 0}).to_bytes()]
    )
    stores.ledger.checkpoint()
    stores.close()
    (tmp_path / "server" / "keys" / "log.key").unlink()
    SigningKey.generate().save(tmp_path / "server" / "keys" / "log.key")
    with pytest.raises(VerificationFailed):
        open_stores(tmp_path / "server", _identity(tmp_path))


@pytest.mark.parametrize("name", ["server.db", "ledger.db"])
def test_a_damaged_file_stops_the_start_with_what_to_do(tmp_path: Path, name: str) -> None:
    identity = _identity(tmp_path)
    open_stores(tmp_path / "server", identity).close()
    for side in (tmp_path / "server").glob(f"{name}-*"):
        side.unlink()
    (tmp_path / "server" / name).write_bytes(b"\x00" * 8192)
    with pytest.raises(StorageError, match=name):
        open_stores(tmp_path / "server", identity)


@pytest.mark.parametrize("name", ["server.db", "ledger.db"])
@pytest.mark.parametrize("how", ["emptied", "missing", "an old copy"])
def test_a_file_that_forgot_stops_the_start_and_the_newest_copy_heals_it(
    site: Site, name: str, how: str
) -> None:
    path = site.data / name
    site.enrolled("one")
    site.stores.ledger.checkpoint()
    site.stores.close()
    old = path.read_bytes()
    site.stores = open_stores(site.data, site.identity)
    site.enrolled("two")
    site.stores.ledger.checkpoint()
    site.stores.close()
    newest = path.read_bytes()
    path.unlink()
    if how != "missing":
        path.write_bytes(b"" if how == "emptied" else old)
    with pytest.raises(StorageError, match=name) as caught:
        open_stores(site.data, site.identity)
    assert "newest copy" in caught.value.do_next
    path.write_bytes(newest)
    site.stores = open_stores(site.data, site.identity)
    assert site.stores.ledger.size == 2
