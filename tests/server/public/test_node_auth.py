from __future__ import annotations

import time

import pytest

from fedaigc_server.registry import PENDING
from tests.server.asgi_call import call
from tests.server.fake_device import FakeDevice
from tests.server.public.conftest import Public

PATH = "/v1/policies/latest"


@pytest.fixture(autouse=True)
def _present(public: Public) -> None:
    public.site.seconds = time.time()


def test_an_enrolled_nodes_signature_opens_the_door(public: Public) -> None:
    assert call(public.app, "GET", PATH, b"", public.device.headers("GET", PATH)).status == 204


@pytest.mark.parametrize("header", ["fedaigc-node", "fedaigc-time", "fedaigc-signature"])
def test_each_header_is_needed(public: Public, header: str) -> None:
    headers = public.device.headers("GET", PATH)
    del headers[header]
    answer = call(public.app, "GET", PATH, b"", headers)
    assert answer.status == 403
    assert answer.json()["error"]["do_next"]


@pytest.mark.parametrize(
    ("method", "path"), [("POST", PATH), ("GET", "/v1/policies/1"), ("GET", PATH + "?x=1")]
)
def test_a_signature_is_good_for_one_request_only(public: Public, method: str, path: str) -> None:
    assert call(public.app, "GET", PATH, b"", public.device.headers(method, path)).status == 403


def test_a_changed_body_is_refused(public: Public) -> None:
    path = "/v1/node/heartbeat"
    headers = public.device.headers("POST", path, b'{"policy":1}')
    assert call(public.app, "POST", path, b'{"policy":2}', headers).status == 403


@pytest.mark.parametrize("skew", [-400, 400])
def test_an_old_or_future_signature_is_refused_and_tells_the_skew(public: Public, skew: int) -> None:
    headers = public.device.headers("GET", PATH, now=int(time.time()) + skew)
    answer = call(public.app, "GET", PATH, b"", headers)
    assert answer.status == 403
    assert "clock" in answer.json()["error"]["what"]


def test_another_nodes_key_is_refused(public: Public) -> None:
    other = public.site.enrolled("other")
    headers = public.device.headers("GET", PATH) | {"fedaigc-node": other.node}
    assert call(public.app, "GET", PATH, b"", headers).status == 403


def test_an_unknown_and_a_revoked_node_are_told_to_ask_for_a_token(public: Public) -> None:
    stranger = FakeDevice(node=public.device.node[:-4] + "0000")  # type: ignore[arg-type]
    public.site.stores.registry.revoke(public.device.node, "lost", 1)
    for device in (stranger, public.device):
        answer = call(public.app, "GET", PATH, b"", device.headers("GET", PATH))
        assert answer.status == 403
        assert answer.json()["error"]["code"] == "not_authorised"
        assert "new token" in answer.json()["error"]["do_next"]


def test_a_half_enrolled_node_is_told_to_finish(public: Public) -> None:
    with public.site.stores.database.transaction() as write:
        write.execute("UPDATE nodes SET standing = ?", (PENDING,))
    answer = call(public.app, "GET", PATH, b"", public.device.headers("GET", PATH))
    assert answer.status == 403
    assert "same fedaigc-edge join" in answer.json()["error"]["do_next"]


def test_a_large_body_is_refused_before_it_is_read(public: Public) -> None:
    path = "/v1/node/heartbeat"
    headers = public.device.headers("POST", path) | {"content-length": "9999999"}
    assert call(public.app, "POST", path, b"", headers).status == 400
