from __future__ import annotations

import time

import numpy as np
import pytest

from fedaigc.adapter import Adapter
from fedaigc.fingerprint import blob_digest
from fedaigc.identifiers import new_round_id
from fedaigc.manifest import PolicyManifest
from fedaigc.reward_head import RewardHead
from tests.server.asgi_call import Answer, call
from tests.server.fake_device import BASE_MODEL, HEAD_DIM, HEAD_LAYER, SHAPE
from tests.server.public.conftest import Public


@pytest.fixture(autouse=True)
def _present(public: Public) -> None:
    public.site.seconds = time.time()


def _get(public: Public, path: str) -> Answer:
    return call(public.app, "GET", path, b"", public.device.headers("GET", path))


def test_there_is_nothing_to_fetch_before_the_first_round(public: Public) -> None:
    assert _get(public, "/v1/policies/latest").status == 204
    assert _get(public, "/v1/policies/0").status == 404
    assert _get(public, "/v1/policies/1").status == 404
    assert _get(public, f"/v1/blobs/{'0' * 64}").status == 404


def test_a_released_policy_can_be_fetched_and_verified(public: Public) -> None:
    adapter = Adapter.zero(SHAPE, BASE_MODEL)
    head = RewardHead(np.ones(HEAD_DIM, dtype=np.float32), HEAD_LAYER, BASE_MODEL)
    public.site.stores.policies.release(adapter, head, new_round_id(), 2, 0.4, 29_000_000)
    latest = _get(public, "/v1/policies/latest")
    manifest = PolicyManifest.open(latest.body, public.device.release_public)
    assert _get(public, f"/v1/policies/{manifest.version}").body == latest.body
    for name in (manifest.adapter, manifest.head):
        assert blob_digest(_get(public, f"/v1/blobs/{name}").body) == name
    assert _get(public, "/v1/policies/2").status == 404


@pytest.mark.parametrize("path", ["/v1/policies/latest", "/v1/policies/1", f"/v1/blobs/{'0' * 64}"])
def test_downloads_are_for_enrolled_nodes(public: Public, path: str) -> None:
    assert call(public.app, "GET", path).status == 403


@pytest.mark.parametrize(
    "path", ["/v1/blobs/..%2f..%2fserver.db", "/v1/blobs/" + "A" * 64, "/v1/policies/-1"]
)
def test_no_other_file_can_be_named(public: Public, path: str) -> None:
    assert _get(public, path).status == 404
