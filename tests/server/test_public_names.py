"""The server's names outlive a restart, and a device that joined by a former name still gets in."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509

from fedaigc.errors import SettingsError
from fedaigc.files import private_folder
from fedaigc_server.certificates import ensure_certificates
from fedaigc_server.public_names import NAMES_FILE, PublicNames, settle_names

NOW = datetime(2026, 12, 1, tzinfo=UTC)


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return private_folder(tmp_path / "keys")


def test_a_start_without_names_takes_those_of_the_last(keys: Path) -> None:
    assert settle_names(keys, ()) == PublicNames()
    assert settle_names(keys, ("DC.example.org", "192.0.2.7")).current == ("dc.example.org", "192.0.2.7")
    assert settle_names(keys, ()).current == ("dc.example.org", "192.0.2.7")
    assert (keys / NAMES_FILE).stat().st_mode & 0o777 == 0o600


def test_another_name_takes_its_place_and_the_former_is_not_forgotten(keys: Path) -> None:
    settle_names(keys, ("old.example.org",))
    assert settle_names(keys, ("new.example.org",)) == PublicNames(("new.example.org",), ("old.example.org",))
    assert settle_names(keys, ()) == PublicNames(("new.example.org",), ("old.example.org",))
    assert settle_names(keys, ("old.example.org",)) == PublicNames(("old.example.org",), ("new.example.org",))


def test_a_new_name_renews_the_certificate_under_the_same_ca_and_keeps_the_former_name(keys: Path) -> None:
    first = settle_names(keys, ("old.example.org",))
    before, _ = ensure_certificates(keys, (*first.current, *first.former), NOW)
    second = settle_names(keys, ("new.example.org",))
    after, changed = ensure_certificates(keys, (*second.current, *second.former), NOW)
    assert changed
    assert after.ca_sha256 == before.ca_sha256
    certificate = x509.load_pem_x509_certificate(after.certificate.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"old.example.org", "new.example.org"} <= set(names.get_values_for_type(x509.DNSName))


def test_a_damaged_file_asks_for_the_name_and_the_name_mends_it(keys: Path) -> None:
    settle_names(keys, ("dc.example.org",))
    (keys / NAMES_FILE).write_text("{")
    with pytest.raises(SettingsError, match="--public-name"):
        settle_names(keys, ())
    assert settle_names(keys, ("dc.example.org",)).current == ("dc.example.org",)
    assert settle_names(keys, ()).current == ("dc.example.org",)
