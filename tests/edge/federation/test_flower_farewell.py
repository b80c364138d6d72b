"""A killed SuperNode is signed off in Flower's own words, and nothing about it can fail the device."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest
from flwr.common.constant import TIMESTAMP_HEADER
from flwr.proto.fleet_pb2 import DeactivateNodeRequest
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER
from flwr.supercore.primitives.asymmetric import bytes_to_public_key, verify_signature
from flwr.supercore.protobuf.constants import PROTOBUF_MEDIA_TYPE
from starlette.responses import Response

from fedaigc.signing import unb64
from fedaigc_edge.federation.flower_farewell import PATH, say_farewell
from fedaigc_edge.identity import FlowerKey
from tests.edge.tls_server import make_ca, tls_server

NODE = 14778314682992408418


@pytest.mark.parametrize("node", [1, 127, 128, NODE, 2**64 - 1])
def test_what_is_sent_is_what_flower_reads(tmp_path: Path, node: int) -> None:
    ca, key = make_ca(tmp_path / "ca"), FlowerKey.load_or_create(tmp_path / "flower.key")
    moment = datetime(2026, 12, 1, 3, 4, 5, 678, tzinfo=UTC)
    with tls_server(ca, lambda request, body: Response(b"")) as (address, seen):
        assert asyncio.run(say_farewell(address, ca.ca_file, key.path, node, lambda: moment))
    ((method, path, headers, body),) = seen.requests
    assert (method, path, headers["content-type"]) == ("POST", PATH, PROTOBUF_MEDIA_TYPE)
    assert DeactivateNodeRequest.FromString(body).node_id == node
    public = bytes_to_public_key(unb64(headers[FLEET_HTTP_PUBLIC_KEY_HEADER]))
    timestamp, signature = headers[TIMESTAMP_HEADER], unb64(headers[FLEET_HTTP_SIGNATURE_HEADER])
    assert datetime.fromisoformat(timestamp) == moment
    assert verify_signature(public, timestamp.encode("ascii"), signature)


def test_a_server_that_does_not_believe_it_or_is_down_changes_nothing(tmp_path: Path) -> None:
    ca, key = make_ca(tmp_path / "ca"), FlowerKey.load_or_create(tmp_path / "flower.key")
    with tls_server(ca, lambda request, body: Response(b"", 401)) as (address, _):
        assert not asyncio.run(say_farewell(address, ca.ca_file, key.path, NODE))
    assert not asyncio.run(say_farewell("127.0.0.1:9", ca.ca_file, key.path, NODE))
    assert not asyncio.run(say_farewell("127.0.0.1:9", tmp_path / "none", key.path, NODE))
    assert not asyncio.run(say_farewell("127.0.0.1:9", ca.ca_file, tmp_path / "none", NODE))
