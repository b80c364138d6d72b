from __future__ import annotations

import asyncio
import json

import httpx
import pytest

from fedaigc_server.public import flower_guard
from fedaigc_server.public.flower_guard import ACTIVATE, FLEET, KEY_HEADER
from tests.server.asgi_call import call, call_async
from tests.server.fake_device import FakeDevice
from tests.server.public.conftest import Public

PULL = FLEET + "pull-messages"


def test_bytes_pass_unchanged_both_ways(public: Public) -> None:
    body = bytes(range(256)) * 40
    public.superlink.body = body[::-1]
    public.superlink.headers = {"content-type": "application/x-protobuf", "flwr-x": "kept"}
    answer = call(public.app, "POST", PULL, body, public.flower_headers() | {"flwr-timestamp": "t"})
    ((method, path, seen, headers),) = public.superlink.seen
    assert (method, path, seen) == ("POST", PULL, body)
    assert headers["flwr-timestamp"] == "t"
    assert answer.body == body[::-1]
    assert answer.headers["content-type"] == "application/x-protobuf"
    assert answer.headers["flwr-x"] == "kept"


def test_hop_by_hop_headers_stay_on_their_hop(public: Public) -> None:
    public.superlink.headers = {"connection": "x-own", "x-own": "1", "keep-alive": "timeout=5", "kept": "1"}
    sent = {
        "connection": "keep-alive, x-hop",
        "x-hop": "1",
        "te": "trailers",
        "upgrade": "h2c",
        "host": "evil",
    }
    answer = call(public.app, "POST", PULL, b"", public.flower_headers() | sent)
    headers = public.superlink.seen[0][3]
    assert not {"x-hop", "te", "upgrade"} & set(headers)
    assert headers["host"] == "127.0.0.1:1"
    assert "kept" in answer.headers
    assert not {"x-own", "keep-alive"} & set(answer.headers)


def test_flowers_own_refusal_reaches_the_supernode_as_it_is(public: Public) -> None:
    public.superlink.status = 401
    public.superlink.body = b'{"detail":"Invalid SuperNode authentication"}'
    answer = call(public.app, "POST", PULL, b"", public.flower_headers())
    assert (answer.status, answer.body) == (401, public.superlink.body)


def test_an_unknown_key_is_told_what_to_do_in_flowers_own_form(public: Public) -> None:
    from flwr.supercore.error import FlowerError

    answer = call(public.app, "POST", ACTIVATE, b"", public.flower_headers(FakeDevice()))
    assert answer.status == 412, "anything else would be tried again for ever"
    error = FlowerError.from_json(answer.body.decode())
    assert error is not None
    assert error.code == 2004
    assert "fedaigc-edge join" in (error.public_details or "")
    assert public.superlink.seen == []


def test_a_node_that_flower_still_takes_for_online_is_told_to_wait(public: Public) -> None:
    public.superlink.status = 412
    public.superlink.body = b'{"code":2004,"detail":"Failed to activate SuperNode."}'
    answer = call(public.app, "POST", ACTIVATE, b"", public.flower_headers())
    assert answer.status == 503, "412 would make the SuperNode give up"
    assert call(public.app, "POST", PULL, b"", public.flower_headers()).status == 412


@pytest.mark.parametrize("header", ["", "!", "AAAA", "é", "A" * 5000])
def test_a_missing_or_odd_key_is_refused_without_bothering_flower(public: Public, header: str) -> None:
    assert call(public.app, "POST", PULL, b"", {KEY_HEADER: header}).status == 401
    assert call(public.app, "POST", PULL, b"").status == 401
    assert public.superlink.seen == []


def test_a_revoked_node_is_stopped_though_flower_still_knows_it(public: Public) -> None:
    headers = public.flower_headers()
    public.site.stores.registry.revoke(public.device.node, "lost", 1)
    assert call(public.app, "POST", PULL, b"", headers).status == 401
    assert call(public.app, "POST", ACTIVATE, b"", headers).status == 412
    assert public.superlink.seen == []


def test_a_body_over_the_limit_is_refused(public: Public, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flower_guard, "_SMALL", 1000)
    headers = public.flower_headers()
    assert call(public.app, "POST", PULL, b"x" * 1001, headers).status == 400
    assert call(public.app, "POST", PULL, b"x" * 1001, headers | {"content-length": "5"}).status == 400
    assert call(public.app, "POST", PULL, b"x" * 1000, headers).status == 200
    assert call(public.app, "POST", FLEET + "push-object", b"x" * 1001, headers).status == 200


def test_an_endless_answer_is_cut_off(public: Public, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flower_guard, "MAX_RESPONSE_BYTES", 10)
    public.superlink.body = b"x" * 1000
    with pytest.raises(Exception, match="too large"):
        call(public.app, "POST", PULL, b"", public.flower_headers())


def test_a_restarting_superlink_makes_the_supernode_try_again(public: Public) -> None:
    public.superlink.failure = httpx.ConnectError("down")
    answer = call(public.app, "POST", PULL, b"", public.flower_headers())
    assert answer.status == 503
    assert "try again" in json.loads(answer.body)["detail"]


def test_many_calls_at_once_all_get_their_own_answer(public: Public) -> None:
    async def together() -> list[int]:
        calls = [call_async(public.app, "POST", PULL, b"x", public.flower_headers()) for _ in range(50)]
        return [answer.status for answer in await asyncio.gather(*calls)]

    assert asyncio.run(together()) == [200] * 50
