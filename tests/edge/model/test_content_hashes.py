from __future__ import annotations

import json
from pathlib import Path

import pytest
from blake3 import blake3

from fedaigc.errors import StorageError
from fedaigc_edge.model.content_hashes import folder_digest, hash_file, hash_folder


def test_every_file_is_hashed_under_its_relative_path(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "b").write_bytes(b"two")
    (tmp_path / "sub" / "a").write_bytes(b"one")
    (tmp_path / "empty").write_bytes(b"")
    expected = {"b": b"two", "empty": b"", "sub/a": b"one"}
    assert hash_folder(tmp_path) == {name: blake3(data).hexdigest() for name, data in expected.items()}


def test_the_digest_is_blake3_of_the_sorted_list_of_paths_and_hashes() -> None:
    hashes = {"z": "11", "a": "22"}
    plain = json.dumps([["a", "22"], ["z", "11"]], separators=(",", ":")).encode()
    assert folder_digest(hashes) == blake3(plain).hexdigest()


def test_moving_a_hash_to_another_path_changes_the_digest() -> None:
    assert folder_digest({"a": "11", "b": "22"}) != folder_digest({"a": "22", "b": "11"})


def test_a_missing_file_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        hash_file(tmp_path / "nothing")
