"""The device's keys: made once, private, refused when damaged."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_ssh_private_key,
    load_ssh_public_key,
)

from fedaigc.errors import IdentityError
from fedaigc_edge.identity import FLOWER_FILE, FlowerKey, Identity


def test_keys_are_made_once_and_read_back_the_same(tmp_path: Path) -> None:
    made = Identity.load_or_create(tmp_path / "keys")
    again = Identity.load_or_create(tmp_path / "keys")
    loaded = Identity.load(tmp_path / "keys")
    for other in (again, loaded):
        assert other.signing.public == made.signing.public
        assert other.flower.public_text == made.flower.public_text
        assert other.sealing.public == made.sealing.public


def test_every_key_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    Identity.load_or_create(tmp_path / "keys")
    files = sorted((tmp_path / "keys").iterdir())
    assert [file.name for file in files] == ["flower.key", "sealing.key", "signing.key"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o700


def test_a_join_that_stopped_between_two_keys_keeps_the_first(tmp_path: Path) -> None:
    made = Identity.load_or_create(tmp_path / "keys")
    (tmp_path / "keys" / FLOWER_FILE).unlink()
    again = Identity.load_or_create(tmp_path / "keys")
    assert again.signing.public == made.signing.public
    assert again.flower.public_text != made.flower.public_text


def test_the_flower_key_is_p384_in_openssh_form_and_its_public_half_fits(tmp_path: Path) -> None:
    key = FlowerKey.load_or_create(tmp_path / "flower.key")
    private = load_ssh_private_key(key.path.read_bytes(), password=None)
    public = load_ssh_public_key(key.public_text.encode("ascii"))
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    assert isinstance(public, ec.EllipticCurvePublicKey)
    assert isinstance(public.curve, ec.SECP384R1)
    assert public.public_numbers() == private.public_key().public_numbers()


def test_a_key_that_others_can_read_is_refused_with_the_mending_command(tmp_path: Path) -> None:
    Identity.load_or_create(tmp_path)
    (tmp_path / FLOWER_FILE).chmod(0o644)
    with pytest.raises(IdentityError, match="chmod 600"):
        Identity.load(tmp_path)


@pytest.mark.parametrize("content", [b"", b"not a key", b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n"])
def test_a_damaged_flower_key_is_refused_and_never_replaced(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "flower.key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(IdentityError, match="P-384"):
        FlowerKey.load_or_create(path)
    assert path.read_bytes() == content


def test_a_key_of_another_curve_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "flower.key"
    key = ec.generate_private_key(ec.SECP256R1())
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    path.chmod(0o600)
    with pytest.raises(IdentityError, match="P-384"):
        FlowerKey.load(path)


def test_missing_keys_say_to_enrol_again(tmp_path: Path) -> None:
    with pytest.raises(IdentityError, match="enrol again"):
        Identity.load(tmp_path)


def test_repr_shows_no_private_key(tmp_path: Path) -> None:
    shown = repr(Identity.load_or_create(tmp_path))
    assert "PRIVATE" not in shown
    assert (tmp_path / "sealing.key").read_bytes().hex() not in shown
