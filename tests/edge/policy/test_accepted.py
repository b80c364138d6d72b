from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedaigc.errors import VerificationFailed
from fedaigc.identifiers import PolicyVersion
from fedaigc.signing import SigningKey
from fedaigc_edge.model.store import ModelFolder
from fedaigc_edge.policy.accepted import (
    ADAPTER_FILE,
    CURRENT_FILE,
    HEAD_FILE,
    MANIFEST_FILE,
    NOTHING_YET,
    AcceptedPolicies,
    PolicyBlobs,
    verified,
)
from tests.edge.policy.released import Releases
from tests.edge.policy.test_adapter_export import random_adapter

ONE, TWO = PolicyVersion(1), PolicyVersion(2)


@pytest.fixture
def releases(tiny_model: ModelFolder) -> Releases:
    server = Releases(tiny_model)
    for _ in range(4):
        server.release()
    return server


@pytest.fixture
def kept(releases: Releases, tmp_path: Path) -> AcceptedPolicies:
    return AcceptedPolicies(tmp_path / "policy", releases.key.public)


def test_nothing_is_accepted_at_first(kept: AcceptedPolicies) -> None:
    assert kept.newest() == NOTHING_YET


def test_what_was_kept_is_read_back_verified(kept: AcceptedPolicies, releases: Releases) -> None:
    policy = kept.keep(releases.policy_blobs(1))
    assert policy.manifest.version == 1
    again = kept.read(ONE)
    assert again.digest == policy.digest and again.manifest == policy.manifest
    assert all(np.array_equal(again.adapter.b[name], policy.adapter.b[name]) for name in policy.adapter.b)


def test_keeping_alone_accepts_nothing(kept: AcceptedPolicies, releases: Releases) -> None:
    policy = kept.keep(releases.policy_blobs(1))
    assert kept.newest() == NOTHING_YET
    kept.accept(policy)
    assert (kept.newest().version, kept.newest().manifest) == (1, policy.digest)


def test_the_newest_three_are_kept_and_older_ones_go(
    kept: AcceptedPolicies, releases: Releases, tmp_path: Path
) -> None:
    for number in (1, 2, 3, 4):
        (tmp_path / "policy" / f".{number}.99.part").mkdir()
        kept.accept(kept.keep(releases.policy_blobs(number)))
    assert sorted(path.name for path in (tmp_path / "policy").iterdir()) == ["2", "3", "4", CURRENT_FILE]


@pytest.mark.parametrize("file", [MANIFEST_FILE, ADAPTER_FILE, HEAD_FILE])
def test_one_changed_bit_in_any_file_is_found(
    kept: AcceptedPolicies, releases: Releases, tmp_path: Path, file: str
) -> None:
    kept.keep(releases.policy_blobs(1))
    path = tmp_path / "policy" / "1" / file
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(VerificationFailed):
        kept.read(ONE)
    path.unlink()
    with pytest.raises(VerificationFailed):
        kept.read(ONE)


def test_a_folder_under_another_number_is_refused(
    kept: AcceptedPolicies, releases: Releases, tmp_path: Path
) -> None:
    kept.keep(releases.policy_blobs(1))
    (tmp_path / "policy" / "1").rename(tmp_path / "policy" / "2")
    with pytest.raises(VerificationFailed, match="another version"):
        kept.read(TWO)


@pytest.mark.parametrize("content", [b"", b"{}", b'{"version":1}', b'{"manifest":"zz","version":1}', b"\xff"])
def test_a_damaged_record_says_which_folder_to_delete(
    kept: AcceptedPolicies, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "policy" / CURRENT_FILE).write_bytes(content)
    with pytest.raises(VerificationFailed) as refused:
        kept.newest()
    assert str(tmp_path / "policy") in refused.value.do_next


def test_swapped_parts_another_key_and_mixed_base_models_are_refused(
    releases: Releases, tiny_model: ModelFolder
) -> None:
    one, two = releases.policy_blobs(1), releases.policy_blobs(2)
    with pytest.raises(VerificationFailed, match="adapter"):
        verified(PolicyBlobs(one.manifest, two.adapter, one.head), releases.key.public, Path())
    with pytest.raises(VerificationFailed, match="head"):
        verified(PolicyBlobs(one.manifest, one.adapter, one.adapter), releases.key.public, Path())
    with pytest.raises(VerificationFailed):
        verified(one, SigningKey.generate().public, Path())
    foreign = Releases(tiny_model, releases.key)
    foreign.release(base_model="00" * 32, adapter=random_adapter(tiny_model))
    with pytest.raises(VerificationFailed, match="different base models"):
        verified(foreign.policy_blobs(1), releases.key.public, Path())
