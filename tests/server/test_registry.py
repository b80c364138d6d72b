from __future__ import annotations

from dataclasses import replace

import pytest

from fedaigc.errors import NotAuthorised, RequestInvalid
from fedaigc.identifiers import new_node_id
from fedaigc.signing import SigningKey
from fedaigc_server.registry import ACTIVE, REVOKED, flower_key_pem, require_active
from tests.server.conftest import NOW, Site


def test_a_node_is_found_by_each_of_its_names(site: Site) -> None:
    device = site.enrolled()
    registry = site.stores.registry
    node = registry.node(device.node)
    assert node is not None
    assert node.standing == ACTIVE
    assert registry.by_signing_key(device.signing.public) == node
    assert registry.by_flower_key(node.flower_key) == node
    assert registry.by_flower_id(node.flower_id or "") == node
    assert registry.capability(device.node) == {"cores": 2}
    assert registry.active() == [node]


def test_two_nodes_never_share_a_key(site: Site) -> None:
    device = site.enrolled()
    node = site.stores.registry.node(device.node)
    assert node is not None
    for other in (
        replace(node, id=new_node_id(), flower_key="another"),
        replace(node, id=new_node_id(), signing_key=SigningKey.generate().public),
    ):
        with pytest.raises(RequestInvalid, match="belongs to another node"):
            site.stores.registry.add(other, {})


def test_a_revoked_node_never_becomes_active_again(site: Site) -> None:
    device = site.enrolled()
    site.stores.registry.revoke(device.node, "lost", NOW)
    site.stores.registry.revoke(device.node, "another reason", NOW + 5)
    site.stores.registry.activate(device.node, "77")
    node = site.stores.registry.node(device.node)
    assert node is not None
    assert (node.standing, node.reason) == (REVOKED, "lost")
    assert site.stores.registry.active() == []


def test_a_heartbeat_is_noted(site: Site) -> None:
    device = site.enrolled()
    site.stores.registry.seen(device.node, NOW + 9, "0.1.0", 3, 12)
    node = site.stores.registry.node(device.node)
    assert node is not None
    assert (node.last_seen, node.version, node.policy, node.outbox) == (NOW + 9, "0.1.0", 3, 12)


def test_who_may_not_take_part_is_told_how_to_get_back(site: Site) -> None:
    device = site.enrolled()
    site.stores.registry.revoke(device.node, "lost", NOW)
    for node in (None, site.stores.registry.node(device.node)):
        with pytest.raises(NotAuthorised, match=r"new token.*fedaigc-edge join"):
            require_active(node)


@pytest.mark.parametrize("text", ["", "ssh-ed25519 AAAA", "é", "ecdsa-sha2-nistp384 AAAA"])
def test_only_an_ec_key_is_a_flower_key(text: str) -> None:
    with pytest.raises(RequestInvalid, match="not an EC public key"):
        flower_key_pem(text)
