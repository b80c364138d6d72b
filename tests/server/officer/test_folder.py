from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fedaigc.errors import IdentityError, SettingsError
from fedaigc.files import write_private
from fedaigc.signed_note import LogSigner
from fedaigc.signing import SigningKey
from fedaigc_server.officer.folder import OfficerFolder
from tests.server.officer.admin_server import TOKEN
from tests.server.officer.desk import write_folder
from tests.server.officer.device import Device

VKEY = LogSigner("ledger.example", SigningKey.generate()).vkey()
GOOD: dict[str, Any] = {"admin_url": "http://127.0.0.1:8444", "log_vkey": VKEY}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "officer", Device(), "http://127.0.0.1:8444", VKEY)


def test_the_folder_says_where_the_ledger_is_and_holds_the_keys(path: Path) -> None:
    folder = OfficerFolder.open(path)
    assert (folder.admin_url, folder.log_vkey, folder.ca_file) == ("http://127.0.0.1:8444", VKEY, None)
    assert (folder.token(), folder.tag_key()) == (TOKEN, Device().tags)
    assert TOKEN not in repr(folder)
    folder.tenant_key()


@pytest.mark.parametrize("url", ["https://ledger.example:8444/", "http://localhost:1", "http://[::1]:1"])
def test_tls_or_this_machine_itself_may_be_asked(path: Path, url: str) -> None:
    write_private(path / "officer.json", json.dumps({**GOOD, "admin_url": url, "ca_file": "/ca"}).encode())
    folder = OfficerFolder.open(path)
    assert (folder.admin_url, folder.ca_file) == (url.rstrip("/"), Path("/ca"))


@pytest.mark.parametrize(
    "change",
    [
        {"admin_url": "http://ledger.example:8444"},
        {"admin_url": "http://127.0.0.1.example"},
        {"admin_url": "http://localhost@ledger.example"},
        {"admin_url": "http://[::1"},
        {"admin_url": "ftp://127.0.0.1"},
        {"admin_url": ""},
        {"admin_url": 7},
        {"log_vkey": VKEY[:-3]},
        {"log_vkey": ""},
        {"more": "x"},
    ],
)
def test_a_wrong_file_is_refused_with_its_name(path: Path, change: dict[str, Any]) -> None:
    write_private(path / "officer.json", json.dumps({**GOOD, **change}).encode())
    with pytest.raises(SettingsError, match=r"officer\.json"):
        OfficerFolder.open(path)


def test_a_file_that_is_no_json_or_too_large_is_refused(path: Path) -> None:
    for data in (b"", b"{", b"[]", b" " * 70_000):
        write_private(path / "officer.json", data)
        with pytest.raises(SettingsError):
            OfficerFolder.open(path)


def test_missing_or_readable_secrets_are_identity_errors(path: Path, tmp_path: Path) -> None:
    with pytest.raises(IdentityError):
        OfficerFolder.open(tmp_path / "absent")
    folder = OfficerFolder.open(path)
    (path / "tag.key").chmod(0o644)
    with pytest.raises(IdentityError, match="other users"):
        folder.tag_key()
    for data in (b"short", b""):
        write_private(path / "tag.key", data)
        with pytest.raises(IdentityError):
            folder.tag_key()
    for token in (b"", b"\n", b"two\nlines", "t\u00f6ken".encode()):
        write_private(path / "officer.token", token)
        with pytest.raises(IdentityError):
            folder.token()
    (path / "tenant.key").unlink()
    with pytest.raises(IdentityError):
        folder.tenant_key()
