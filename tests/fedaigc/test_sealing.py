from __future__ import annotations

from pathlib import Path

import pytest

from fedaigc.errors import IdentityError, VerificationFailed
from fedaigc.sealing import SealingKey, SealingPublicKey


def test_only_the_holder_of_the_key_opens_what_was_sealed() -> None:
    key = SealingKey.generate()
    sealed = SealingPublicKey.from_text(key.public.text()).seal("opening", b"salt")
    assert key.open("opening", sealed) == b"salt"
    with pytest.raises(VerificationFailed):
        SealingKey.generate().open("opening", sealed)


def test_a_value_sealed_for_one_purpose_does_not_open_for_another() -> None:
    key = SealingKey.generate()
    with pytest.raises(VerificationFailed):
        key.open("tag-key", key.public.seal("opening", b"salt"))


def test_every_changed_byte_is_noticed() -> None:
    key = SealingKey.generate()
    sealed = bytearray(key.public.seal("opening", b"salt"))
    for place in range(len(sealed)):
        changed = bytes(sealed[:place]) + bytes([sealed[place] ^ 1]) + bytes(sealed[place + 1 :])
        with pytest.raises(VerificationFailed):
            key.open("opening", changed)
    with pytest.raises(VerificationFailed):
        key.open("opening", b"")


def test_the_key_file_is_private_and_a_damaged_one_refused(tmp_path: Path) -> None:
    path = tmp_path / "sealing.key"
    key = SealingKey.load_or_create(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert SealingKey.load_or_create(path).public == key.public
    path.write_bytes(b"short")
    with pytest.raises(IdentityError):
        SealingKey.load(path)
