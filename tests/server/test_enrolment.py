from __future__ import annotations

from typing import Any

import pytest

from fedaigc.canonical import Json, canonical_bytes
from fedaigc.errors import (
    FedaigcError,
    JoinTokenError,
    NotAuthorised,
    RequestInvalid,
    Unavailable,
    VerificationFailed,
)
from fedaigc.fingerprint import tag_key
from fedaigc.ledger_entry import LedgerEntry
from fedaigc.signing import b64, unb64
from fedaigc_server.enrolment import EnrolRequest
from fedaigc_server.registry import ACTIVE, PENDING
from tests.server.conftest import Site
from tests.server.fake_device import FakeDevice


def _enrol(site: Site, device: FakeDevice, body: dict[str, Json]) -> dict[str, Any]:
    answer = site.enrolment.enrol(EnrolRequest.read(body))
    device.accept(answer)
    return answer


def _entries(site: Site) -> list[LedgerEntry]:
    ledger = site.stores.ledger
    return [LedgerEntry.from_bytes(ledger.entry(index)) for index in range(ledger.size)]


def test_a_device_with_a_token_is_in_and_in_the_ledger(site: Site) -> None:
    device = FakeDevice()
    answer = _enrol(site, device, device.enrol_body(site.token("eu")))
    node = site.stores.registry.node(device.node)
    assert node is not None
    assert (node.standing, node.region, node.name) == (ACTIVE, "eu", "device")
    assert list(site.flower.nodes.values()) == [node.flower_id]
    assert set(answer) == {"node", "log_vkey", "release_key", "tenant_key", "tag_keys", "poll_s"}
    ((month, sealed),) = answer["tag_keys"].items()
    assert device.sealing.open("tag-key", unb64(sealed)) == tag_key(site.identity.tag_key, month)
    (entry,) = _entries(site)
    assert (entry.kind, entry.node) == ("enrolment", device.node)
    assert entry.body == {"signing_key": device.signing.public.text(), "region": "eu"}


def test_asking_again_with_the_same_token_and_key_changes_nothing(site: Site) -> None:
    device = FakeDevice()
    body = device.enrol_body(site.token(lasts_s=10))
    first = _enrol(site, device, body)
    site.seconds += 100
    again = _enrol(site, device, body)
    assert first["node"] == again["node"]
    assert site.stores.ledger.size == 1
    assert len(site.stores.registry.nodes()) == 1


def test_a_used_token_does_not_let_another_key_in(site: Site) -> None:
    token, first, second = site.token(), FakeDevice(), FakeDevice()
    _enrol(site, first, first.enrol_body(token))
    with pytest.raises(JoinTokenError, match="already used"):
        _enrol(site, second, second.enrol_body(token))
    assert len(site.stores.registry.nodes()) == 1


def test_an_expired_token_is_refused(site: Site) -> None:
    device = FakeDevice()
    body = device.enrol_body(site.token(lasts_s=10))
    site.seconds += 11
    with pytest.raises(JoinTokenError, match="expired"):
        _enrol(site, device, body)


@pytest.mark.parametrize("field", ["region", "secret", "token_id"])
def test_a_token_is_good_for_what_it_says_and_nothing_else(site: Site, field: str) -> None:
    device = FakeDevice()
    body = device.enrol_body(site.token())
    body.pop("proof")
    body[field] = "other"
    body["proof"] = b64(device.signing.sign("enrol", canonical_bytes(body)))
    with pytest.raises(JoinTokenError):
        _enrol(site, device, body)
    assert site.stores.registry.nodes() == []


@pytest.mark.parametrize("field", ["name", "flower_key", "sealing_key", "signing_key", "capability"])
def test_a_body_that_its_key_did_not_sign_is_refused(site: Site, field: str) -> None:
    device, other = FakeDevice(), FakeDevice()
    body = device.enrol_body(site.token())
    changed = {**other.enrol_body(site.token()), "name": "x", "capability": {"cores": 64}}
    with pytest.raises(VerificationFailed):
        EnrolRequest.read({**body, field: changed[field]})


@pytest.mark.parametrize(
    "change",
    [
        {"name": ""},
        {"name": "a\nb"},
        {"name": "x" * 65},
        {"capability": []},
        {"capability": {"a": "x" * 9000}},
    ],
)
def test_odd_values_are_refused_though_they_are_signed(site: Site, change: dict[str, Json]) -> None:
    device = FakeDevice()
    body = {**device.enrol_body(site.token()), **change}
    body.pop("proof")
    body["proof"] = b64(device.signing.sign("enrol", canonical_bytes(body)))
    with pytest.raises(FedaigcError) as refused:
        EnrolRequest.read(body)
    assert "x" * 20 not in str(refused.value)


def test_a_crash_before_flower_is_mended_by_the_devices_retry(site: Site) -> None:
    device = FakeDevice()
    body = device.enrol_body(site.token())
    site.flower.down = True
    with pytest.raises(Unavailable):
        _enrol(site, device, body)
    assert [node.standing for node in site.stores.registry.nodes()] == [PENDING]
    assert site.stores.ledger.size == 0
    site.flower.down = False
    _enrol(site, device, body)
    assert [node.standing for node in site.stores.registry.nodes()] == [ACTIVE]
    assert site.stores.ledger.size == 1


def test_a_known_device_may_use_a_new_token_and_stays_the_same_node(site: Site) -> None:
    device = site.enrolled()
    node = device.node
    _enrol(site, device, device.enrol_body(site.token("us")))
    assert device.node == node
    assert len(site.stores.registry.nodes()) == 1


def test_a_known_signing_key_with_other_keys_is_refused(site: Site) -> None:
    device = site.enrolled()
    mixed = FakeDevice(signing=device.signing)
    with pytest.raises(RequestInvalid, match="do not belong together"):
        _enrol(site, mixed, mixed.enrol_body(site.token()))


def test_revocation_holds_everywhere_and_for_every_token(site: Site) -> None:
    device = site.enrolled()
    node = site.stores.registry.node(device.node)
    assert node is not None
    site.enrolment.revoke(node, "stolen")
    site.enrolment.revoke(node, "again")
    assert site.flower.nodes == {}
    assert [entry.kind for entry in _entries(site)] == ["enrolment", "revocation"]
    with pytest.raises(NotAuthorised, match="revoked"):
        _enrol(site, device, device.enrol_body(site.token()))


def test_revocation_holds_though_flower_is_down_and_is_carried_over_later(site: Site) -> None:
    device = site.enrolled()
    node = site.stores.registry.node(device.node)
    assert node is not None
    site.flower.down = True
    with pytest.raises(Unavailable):
        site.enrolment.revoke(node, "stolen")
    assert site.stores.registry.active() == []
    site.flower.down = False
    assert site.enrolment.reconcile() == 1
    assert site.flower.nodes == {}


def test_a_lost_flower_database_is_filled_again_from_the_registry(site: Site) -> None:
    site.enrolled("one")
    site.enrolled("two")
    site.flower.nodes = {}
    assert site.enrolment.reconcile() == 2
    assert site.enrolment.reconcile() == 0
    assert {node.flower_id for node in site.stores.registry.active()} == set(site.flower.nodes.values())
