from __future__ import annotations

from pathlib import Path

import pytest

from fedaigc.errors import IdentityError, VerificationFailed
from fedaigc.signing import PublicKey, SigningKey, unb64


def test_rfc_8032_public_key_checks_the_rfc_signature() -> None:
    # RFC 8032, section 7.1, TEST 2.
    key = PublicKey(bytes.fromhex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"))
    signature = bytes.fromhex(
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    )
    key.verify_raw(b"\x72", signature)
    with pytest.raises(VerificationFailed):
        key.verify_raw(b"\x73", signature)


def test_a_signature_for_one_purpose_does_not_serve_another() -> None:
    key = SigningKey.generate()
    signature = key.sign("round-plan", b"message")
    key.public.verify("round-plan", b"message", signature)
    with pytest.raises(VerificationFailed):
        key.public.verify("policy-manifest", b"message", signature)


def test_the_key_file_is_private_and_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "signing.key"
    key = SigningKey.load_or_create(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert SigningKey.load_or_create(path).public == key.public


def test_a_key_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "signing.key"
    SigningKey.generate().save(path)
    path.chmod(0o644)
    with pytest.raises(IdentityError, match="chmod 600"):
        SigningKey.load(path)


@pytest.mark.parametrize(
    "content", [b"", b"garbage", b"-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n"]
)
def test_a_damaged_key_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "signing.key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(IdentityError, match="damaged"):
        SigningKey.load(path)


def test_no_form_of_the_key_shows_its_private_half() -> None:
    key = SigningKey.generate()
    assert "private" not in repr(key).lower().replace("privatekey", "")
    assert key.public.text() in repr(key)


@pytest.mark.parametrize("text", ["a", "????", "AAAA\n", "AAA"])
def test_loose_base64_is_refused(text: str) -> None:
    with pytest.raises(VerificationFailed):
        unb64(text)
