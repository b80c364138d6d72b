"""Joining over real TLS: the right server only, once, and again after a crash at any point."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from fedaigc.canonical import canonical_bytes
from fedaigc.errors import (
    FedaigcError,
    IdentityError,
    JoinTokenError,
    NotAuthorised,
    SettingsError,
    StorageError,
    Unavailable,
    VerificationFailed,
)
from fedaigc.signing import PublicKey, unb64
from fedaigc_edge.enrolment import CA_FILE, ENROLMENT_FILE, Enrolment, is_enrolled
from fedaigc_edge.federation.tag_keys import TagKeys
from fedaigc_edge.identity import Identity
from fedaigc_edge.joining import PURPOSE, join_once, server_address
from fedaigc_edge.standing import StandingRecord, State
from tests.edge.enrolled import MONTH_KEY, NODE, enrol_answer, token_for
from tests.edge.tls_server import TestCa, make_ca, tls_server

Answer = Callable[[Request, bytes], Response]


def _server(ca: TestCa, enrol: Answer | None = None) -> Answer:
    def answer(request: Request, body: bytes) -> Response:
        if request.url.path == "/v1/ca":
            return Response(ca.ca_file.read_bytes())
        if enrol is not None:
            return enrol(request, body)
        return JSONResponse(enrol_answer(json.loads(body)["sealing_key"]))

    return answer


def _refusing(error: FedaigcError, status: int) -> Answer:
    return lambda request, body: JSONResponse({"error": error.as_json()}, status)


def test_a_device_joins_and_keeps_what_the_server_said(tmp_path: Path) -> None:
    ca = make_ca(tmp_path / "ca")
    with tls_server(ca, _server(ca)) as (address, seen):
        token = token_for(address, ca.sha256)
        enrolment, fresh = join_once(tmp_path, address, token, "desk")
        assert fresh
        assert join_once(tmp_path, address, token, "desk") == (enrolment, False)
    assert seen.paths() == ["/v1/ca", "/v1/enrol"]
    assert Enrolment.load(tmp_path) == enrolment
    assert TagKeys(tmp_path, Identity.load(tmp_path / "keys").sealing).key("2026-12") == MONTH_KEY
    assert (tmp_path / CA_FILE).read_bytes() == ca.ca_file.read_bytes()


def test_the_request_proves_the_signing_key_and_holds_only_public_halves(tmp_path: Path) -> None:
    ca = make_ca(tmp_path / "ca")
    with tls_server(ca, _server(ca)) as (address, seen):
        join_once(tmp_path, address, token_for(address, ca.sha256), "desk")
    sent = json.loads(seen.requests[1][3])
    proof = unb64(sent.pop("proof"))
    PublicKey.from_text(sent["signing_key"]).verify(PURPOSE, canonical_bytes(sent), proof)
    assert sent["flower_key"].startswith("ecdsa-sha2-nistp384 ")
    assert sent["capability"]["cpus"] >= 1
    assert b"PRIVATE" not in seen.requests[1][3]


def test_another_server_is_refused_before_the_secret_is_sent(tmp_path: Path) -> None:
    right, wrong = make_ca(tmp_path / "right"), make_ca(tmp_path / "wrong")
    with tls_server(wrong, _server(wrong)) as (address, seen):
        token = token_for(address, right.sha256)
        with pytest.raises(VerificationFailed, match="not the one that made this token"):
            join_once(tmp_path, address, token, "desk")
    assert seen.paths() == ["/v1/ca"]
    assert not is_enrolled(tmp_path)
    assert not (tmp_path / CA_FILE).exists()


def test_a_server_that_shows_the_right_ca_but_has_no_certificate_from_it_is_refused(tmp_path: Path) -> None:
    right, wrong = make_ca(tmp_path / "right"), make_ca(tmp_path / "wrong")
    with tls_server(wrong, _server(right)) as (address, seen):
        token = token_for(address, right.sha256)
        with pytest.raises(VerificationFailed, match="does not prove who it is"):
            join_once(tmp_path, address, token, "desk")
    assert token.secret.encode() not in b"".join(body for _, _, _, body in seen.requests)


def test_a_certificate_for_another_host_is_refused(tmp_path: Path) -> None:
    ca = make_ca(tmp_path / "ca", host="dc.example.org")
    with tls_server(ca, _server(ca)) as (address, _), pytest.raises(VerificationFailed, match="another host"):
        join_once(tmp_path, address, token_for(address, ca.sha256), "desk")


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (JoinTokenError("This token has expired", "an hour ago", "ask for a new one"), 403, JoinTokenError),
        (
            JoinTokenError("This token was used", "by another device", "ask for a new one"),
            409,
            JoinTokenError,
        ),
        (Unavailable("Too many tries", "", "wait a minute"), 429, Unavailable),
    ],
)
def test_the_servers_refusal_reaches_the_owner_word_for_word(
    tmp_path: Path, error: FedaigcError, status: int, kind: type[FedaigcError]
) -> None:
    ca = make_ca(tmp_path / "ca")
    with tls_server(ca, _server(ca, _refusing(error, status))) as (address, _), pytest.raises(kind) as caught:
        join_once(tmp_path, address, token_for(address, ca.sha256), "desk")
    assert str(caught.value) == str(error)
    assert not is_enrolled(tmp_path)


def test_a_server_that_is_down_is_said_to_be_unreachable(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    with pytest.raises(Unavailable, match="cannot be reached"):
        join_once(tmp_path, address, token_for(address, "0" * 64), "desk")


def test_a_join_cut_short_after_the_answer_goes_on_with_the_same_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ca = make_ca(tmp_path / "ca")
    with tls_server(ca, _server(ca)) as (address, seen):
        token = token_for(address, ca.sha256)
        with monkeypatch.context() as patch:
            patch.setattr(Enrolment, "save", _disk_full)
            with pytest.raises(StorageError):
                join_once(tmp_path, address, token, "desk")
        _, fresh = join_once(tmp_path, address, token, "desk")
    assert fresh
    first, second = (json.loads(body) for _, path, _, body in seen.requests if path == "/v1/enrol")
    assert first == second


def _disk_full(self: Enrolment, data: Path) -> None:
    raise StorageError("Cannot write", "the disk is full", "free some space")


def test_another_token_on_an_enrolled_folder_explains(tmp_path: Path) -> None:
    ca = make_ca(tmp_path / "ca")
    with tls_server(ca, _server(ca)) as (address, _):
        join_once(tmp_path, address, token_for(address, ca.sha256), "desk")
        with pytest.raises(IdentityError, match="one folder is one device"):
            join_once(tmp_path, address, token_for(address, ca.sha256), "desk")


def test_a_new_token_after_a_revocation_makes_a_new_node_and_keeps_the_old_ones_evidence(
    tmp_path: Path,
) -> None:
    ca, data = make_ca(tmp_path / "ca"), tmp_path / "d"
    data.mkdir()
    with tls_server(ca, _server(ca)) as (address, seen):
        join_once(data, address, token_for(address, ca.sha256), "desk")
        for name in ("evidence.db", "evidence.db-wal", "learn.db"):
            (data / name).write_text("old")
        StandingRecord(data).revoked(NotAuthorised("revoked"))
        _, fresh = join_once(data, address, token_for(address, ca.sha256), "desk")
    assert fresh
    first, second = (json.loads(body) for _, path, _, body in seen.requests if path == "/v1/enrol")
    assert first["signing_key"] != second["signing_key"]
    assert (data / "former" / NODE / "evidence.db").read_text() == "old"
    assert not (data / "evidence.db").exists()
    assert (data / "learn.db").read_text() == "old"
    assert StandingRecord(data).current.state is State.ACTIVE


@pytest.mark.parametrize("first", [True, False], ids=["its first token", "a new token of its server"])
def test_a_new_address_moves_the_device_once_its_own_server_answers_there(
    tmp_path: Path, first: bool
) -> None:
    ca = make_ca(tmp_path / "ca")
    with tls_server(ca, _server(ca)) as (old, _):
        token = token_for(old, ca.sha256)
        enrolment, _ = join_once(tmp_path, old, token, "desk")
    with tls_server(ca, _server(ca)) as (new, seen):
        given = token if first else token_for(new, ca.sha256)
        assert join_once(tmp_path, new, given, "desk") == (replace(enrolment, address=new), False)
    assert Enrolment.load(tmp_path).address == new
    assert "/v1/enrol" not in seen.paths()


@pytest.mark.parametrize("first", [True, False])
def test_a_device_is_not_moved_to_an_address_where_its_server_does_not_answer(
    tmp_path: Path, first: bool
) -> None:
    ca, wrong = make_ca(tmp_path / "ca"), make_ca(tmp_path / "wrong")
    with tls_server(ca, _server(ca)) as (old, _):
        token = token_for(old, ca.sha256)
        join_once(tmp_path, old, token, "desk")
    given = token if first else token_for("dc:1", ca.sha256)
    with (
        tls_server(wrong, _server(ca)) as (new, _),
        pytest.raises(VerificationFailed, match="prove who it is"),
    ):
        join_once(tmp_path, new, given, "desk")
    with pytest.raises(Unavailable):
        join_once(tmp_path, "127.0.0.1:9", given, "desk")
    assert Enrolment.load(tmp_path).address == old


def test_a_token_of_another_server_does_not_move_an_active_device(tmp_path: Path) -> None:
    ca, other = make_ca(tmp_path / "ca"), make_ca(tmp_path / "other")
    with tls_server(ca, _server(ca)) as (address, _):
        join_once(tmp_path, address, token_for(address, ca.sha256), "desk")
    with (
        tls_server(other, _server(other)) as (new, seen),
        pytest.raises(IdentityError, match="not of its server"),
    ):
        join_once(tmp_path, new, token_for(new, other.sha256), "desk")
    assert seen.paths() == []


@pytest.mark.parametrize("same", [True, False], ids=["the same token", "a new token"])
@pytest.mark.parametrize("content", [None, b"junk"], ids=["missing", "junk"])
def test_a_lost_ca_comes_back_with_the_join_command_and_the_device_stays_the_node_it_was(
    tmp_path: Path, same: bool, content: bytes | None
) -> None:
    ca = make_ca(tmp_path / "ca")
    with tls_server(ca, _server(ca)) as (address, seen):
        token = token_for(address, ca.sha256)
        join_once(tmp_path, address, token, "desk")
        (tmp_path / CA_FILE).unlink()
        if content is not None:
            (tmp_path / CA_FILE).write_bytes(content)
        enrolment, fresh = join_once(
            tmp_path, address, token if same else token_for(address, ca.sha256), "desk"
        )
    assert (enrolment.node, fresh) == (NODE, not same)
    assert (tmp_path / CA_FILE).read_bytes() == ca.ca_file.read_bytes()
    keys = {json.loads(body)["signing_key"] for _, path, _, body in seen.requests if path == "/v1/enrol"}
    assert len(keys) == 1


def test_a_damaged_enrolment_is_mended_by_a_new_token_with_the_same_keys(tmp_path: Path) -> None:
    ca = make_ca(tmp_path / "ca")
    with tls_server(ca, _server(ca)) as (address, seen):
        join_once(tmp_path, address, token_for(address, ca.sha256), "desk")
        (tmp_path / "evidence.db").write_text("mine")
        (tmp_path / ENROLMENT_FILE).write_text("{")
        assert join_once(tmp_path, address, token_for(address, ca.sha256), "desk")[1]
    assert Enrolment.load(tmp_path).node == NODE
    assert (tmp_path / "evidence.db").read_text() == "mine"
    first, second = (json.loads(body) for _, path, _, body in seen.requests if path == "/v1/enrol")
    assert first["signing_key"] == second["signing_key"]


def test_a_device_that_left_with_a_damaged_enrolment_becomes_a_new_node(tmp_path: Path) -> None:
    ca, data = make_ca(tmp_path / "ca"), tmp_path / "d"
    data.mkdir()
    with tls_server(ca, _server(ca)) as (address, seen):
        join_once(data, address, token_for(address, ca.sha256), "desk")
        (data / "evidence.db").write_text("old")
        (data / ENROLMENT_FILE).write_text("{")
        StandingRecord(data).left()
        join_once(data, address, token_for(address, ca.sha256), "desk")
    first, second = (json.loads(body) for _, path, _, body in seen.requests if path == "/v1/enrol")
    assert first["signing_key"] != second["signing_key"]
    (former,) = (data / "former").iterdir()
    assert (former / "evidence.db").read_text() == "old"


@pytest.mark.parametrize(
    ("url", "address"),
    [
        (None, "dc:8443"),
        ("https://other:9000", "other:9000"),
        ("https://other:9000/", "other:9000"),
        ("other:9000", "other:9000"),
        ("https://other", "other:443"),
        ("https://[::1]:9000", "[::1]:9000"),
    ],
)
def test_the_url_wins_for_the_address(url: str | None, address: str) -> None:
    assert server_address(url, token_for("dc:8443", "0" * 64)) == address


@pytest.mark.parametrize(
    "url",
    ["http://other:1", "https://", "https://other:1/path", "https://other:99999999", "https://u:p@other"],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(SettingsError):
        server_address(url, token_for("dc:8443", "0" * 64))
