from __future__ import annotations

import json
import time

import pytest

from fedaigc import __version__
from fedaigc.canonical import canonical_bytes
from fedaigc.fingerprint import tag_key
from fedaigc.signing import unb64
from tests.server.asgi_call import call
from tests.server.fake_device import FakeDevice
from tests.server.public.conftest import Public


@pytest.fixture(autouse=True)
def _present(public: Public) -> None:
    public.site.seconds = time.time()


def test_health_and_ca_need_no_key(public: Public) -> None:
    assert call(public.app, "GET", "/health").json()["status"] == "ok"
    assert call(public.app, "GET", "/v1/ca").body.startswith(b"-----BEGIN CERTIFICATE-----")


def test_a_device_enrols_over_http(public: Public) -> None:
    device = FakeDevice("second")
    body = canonical_bytes(device.enrol_body(public.site.token()))
    answer = call(public.app, "POST", "/v1/enrol", body)
    assert answer.status == 200
    device.accept(answer.json())
    assert (
        call(
            public.app, "GET", "/v1/policies/latest", b"", device.headers("GET", "/v1/policies/latest")
        ).status
        == 204
    )


def test_a_used_token_answers_403_with_what_to_do(public: Public) -> None:
    token = public.site.token()
    for expected, device in ((200, FakeDevice()), (403, FakeDevice())):
        answer = call(public.app, "POST", "/v1/enrol", canonical_bytes(device.enrol_body(token)))
        assert answer.status == expected
    assert answer.json()["error"]["code"] == "join_token"
    assert "token create" in answer.json()["error"]["do_next"]


def test_guessing_is_slowed_down_for_that_address_alone(public: Public) -> None:
    statuses = [call(public.app, "POST", "/v1/enrol", b"{}").status for _ in range(110)]
    assert statuses[0] == 400
    assert statuses[-1] == 429
    assert call(public.app, "POST", "/v1/enrol", b"{}", source="192.0.2.99").status == 400


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b'{"a":1,"a":1}', b"[" * 100_000])
def test_a_malformed_enrolment_is_refused_quietly(public: Public, body: bytes) -> None:
    answer = call(public.app, "POST", "/v1/enrol", body)
    assert answer.status == 400
    assert set(answer.json()["error"]) == {"code", "what", "why", "do_next"}


def test_a_heartbeat_is_noted_and_answered_with_the_newest_policy(public: Public) -> None:
    body = json.dumps({"policy": 0, "version": "0.1.0", "outbox": 3, "model": None}).encode()
    path = "/v1/node/heartbeat"
    answer = call(public.app, "POST", path, body, public.device.headers("POST", path, body))
    assert answer.json() == {"standing": "active", "policy": 0}
    node = public.site.stores.registry.node(public.device.node)
    assert node is not None
    assert node.outbox == 3


@pytest.mark.parametrize(
    "body", [b"{}", b'{"policy":-1,"version":"1","outbox":0}', b'{"policy":0,"version":1,"outbox":0}']
)
def test_a_malformed_heartbeat_is_refused(public: Public, body: bytes) -> None:
    path = "/v1/node/heartbeat"
    assert call(public.app, "POST", path, body, public.device.headers("POST", path, body)).status == 400


@pytest.mark.parametrize("version", ["", " 1", "1\n", "\x1b[2J", "<b>", "1 2", "版本", "v" * 33])
def test_a_version_that_a_terminal_could_obey_is_refused_and_not_kept(public: Public, version: str) -> None:
    body = json.dumps({"policy": 0, "version": version, "outbox": 0, "model": None}).encode()
    path = "/v1/node/heartbeat"
    assert call(public.app, "POST", path, body, public.device.headers("POST", path, body)).status == 400
    node = public.site.stores.registry.node(public.device.node)
    assert node is not None
    assert node.version is None


def test_the_versions_that_python_packages_have_are_kept(public: Public) -> None:
    path = "/v1/node/heartbeat"
    for version in (__version__, "1.0.0rc1", "0.2.dev3+g1a2b3c"):
        body = json.dumps({"policy": 0, "version": version, "outbox": 0}).encode()
        assert call(public.app, "POST", path, body, public.device.headers("POST", path, body)).status == 200
        node = public.site.stores.registry.node(public.device.node)
        assert node is not None
        assert node.version == version


def test_month_keys_are_sealed_to_the_device(public: Public) -> None:
    body, path = b'{"months":["2026-07","2026-08"]}', "/v1/node/tag-keys"
    answer = call(public.app, "POST", path, body, public.device.headers("POST", path, body))
    keys = answer.json()["tag_keys"]
    assert set(keys) == {"2026-07", "2026-08"}
    for month, sealed in keys.items():
        opened = public.device.sealing.open("tag-key", unb64(sealed))
        assert opened == tag_key(public.site.identity.tag_key, month)


@pytest.mark.parametrize(
    "months", ['["2026-13"]', '["x"]', "[1]", '["2026-01","2026-02","2026-03","2026-04"]', "{}"]
)
def test_odd_months_are_refused(public: Public, months: str) -> None:
    body, path = f'{{"months":{months}}}'.encode(), "/v1/node/tag-keys"
    assert call(public.app, "POST", path, body, public.device.headers("POST", path, body)).status == 400
