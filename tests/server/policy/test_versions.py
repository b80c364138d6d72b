"""Versions form one signed chain; a round makes at most one; a broken chain is not opened."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from fedaigc.adapter import Adapter
from fedaigc.errors import StorageError, VerificationFailed
from fedaigc.identifiers import new_round_id
from fedaigc.manifest import PolicyManifest
from fedaigc.reward_head import RewardHead
from fedaigc.signing import SigningKey
from fedaigc_server.blobs import Blobs
from fedaigc_server.policy.versions import PolicyVersions
from tests.learning_values import BASE_MODEL, ROUND, a_head, an_adapter

KEY = SigningKey.generate()


def _open(folder: Path) -> PolicyVersions:
    return PolicyVersions(folder / "server.db", Blobs(folder / "blobs"), KEY)


def _release(versions: PolicyVersions, seed: int) -> bytes:
    head = RewardHead(a_head(seed), 20, BASE_MODEL)
    return versions.release(an_adapter(seed), head, new_round_id(), 2, 0.5, 100 + seed)


def test_without_a_release_there_is_only_the_base_model(tmp_path: Path) -> None:
    versions = _open(tmp_path)
    assert versions.latest() is None
    with pytest.raises(StorageError, match="no policy 1"):
        versions.manifest_bytes(1)


def test_each_version_names_its_parent_and_its_blobs(tmp_path: Path) -> None:
    versions = _open(tmp_path)
    first, second = _release(versions, 1), _release(versions, 2)
    one, two = (PolicyManifest.open(data, KEY.public) for data in (first, second))
    assert (one.version, one.parent, one.parent_manifest) == (1, 0, "")
    assert (two.version, two.parent, two.parent_manifest) == (2, 1, PolicyManifest.digest(first))
    assert versions.latest() == two
    blobs = Blobs(tmp_path / "blobs")
    assert Adapter.from_bytes(blobs.get(two.adapter)).to_bytes() == an_adapter(2).to_bytes()
    assert RewardHead.from_bytes(blobs.get(two.head)).layer == 20


def test_versions_survive_a_restart(tmp_path: Path) -> None:
    data = _release(_open(tmp_path), 1)
    again = _open(tmp_path)
    assert again.manifest_bytes(1) == data
    assert again.latest() == PolicyManifest.open(data, KEY.public)


def test_a_round_released_twice_is_one_version(tmp_path: Path) -> None:
    versions = _open(tmp_path)
    head = RewardHead(a_head(1), 20, BASE_MODEL)
    first = versions.release(an_adapter(1), head, ROUND, 2, 0.5, 100)
    again = versions.release(an_adapter(9), head, ROUND, 3, 0.9, 999)
    assert again == first
    latest = versions.latest()
    assert latest is not None and latest.version == 1


def test_base_models_cannot_be_mixed(tmp_path: Path) -> None:
    versions = _open(tmp_path)
    _release(versions, 1)
    other = "6b" * 32
    with pytest.raises(VerificationFailed, match="mixes base models"):
        versions.release(an_adapter(1), RewardHead(a_head(1), 20, other), ROUND, 2, 0.5, 1)
    moved = Adapter(an_adapter(1).shape, other, an_adapter(1).b)
    with pytest.raises(VerificationFailed, match="mixes base models"):
        versions.release(moved, RewardHead(a_head(1), 20, other), ROUND, 2, 0.5, 1)


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM policies WHERE version = 1",
        "DELETE FROM policies WHERE version = 2",
        "UPDATE policies SET manifest = (SELECT manifest FROM policies WHERE version = 3) WHERE version = 2",
        "UPDATE policies SET manifest = zeroblob(300) WHERE version = 2",
    ],
)
def test_a_chain_with_a_hole_or_a_replaced_version_is_not_opened(tmp_path: Path, damage: str) -> None:
    versions = _open(tmp_path)
    for seed in range(3):
        _release(versions, seed)
    versions.close()
    with sqlite3.connect(tmp_path / "server.db") as database:
        database.execute(damage)
    with pytest.raises(VerificationFailed):
        _open(tmp_path)


def test_a_version_signed_by_another_key_is_not_opened(tmp_path: Path) -> None:
    _release(_open(tmp_path), 1)
    with pytest.raises(VerificationFailed):
        PolicyVersions(tmp_path / "server.db", Blobs(tmp_path / "blobs"), SigningKey.generate())
