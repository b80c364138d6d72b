from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from fedaigc.errors import (
    FedaigcError,
    LedgerError,
    NotAuthorised,
    SettingsError,
    Unavailable,
    VerificationFailed,
)
from fedaigc_server.officer import admin_connection
from fedaigc_server.officer.admin_connection import AdminConnection
from fedaigc_server.officer.folder import OfficerFolder
from tests.server.officer.admin_server import TOKEN
from tests.server.officer.desk import Desk, write_folder
from tests.server.officer.device import Device
from tests.server.officer.test_folder import VKEY


@pytest.fixture
def folder(tmp_path: Path) -> OfficerFolder:
    return OfficerFolder.open(write_folder(tmp_path / "officer", Device(), "http://127.0.0.1:9", VKEY))


def answered(folder: OfficerFolder, answer: Callable[[httpx.Request], httpx.Response]) -> AdminConnection:
    return AdminConnection(folder, httpx.MockTransport(answer))


def always(folder: OfficerFolder, status: int = 200, **answer: Any) -> AdminConnection:
    return answered(folder, lambda _: httpx.Response(status, **answer))


def test_a_question_carries_the_token_and_only_tags(folder: OfficerFolder) -> None:
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, json={"matches": []})

    with answered(folder, answer) as connection:
        assert connection.search("case 7", [bytes(16)]) == {"matches": []}
    (request,) = asked
    assert (request.method, request.url.path) == ("POST", "/v1/officer/search")
    assert request.headers["authorization"] == f"Bearer {TOKEN}"
    assert request.content == b'{"case":"case 7","tags":["' + b"0" * 32 + b'"]}'


def test_a_redirect_is_not_followed_and_the_token_goes_nowhere_else(folder: OfficerFolder) -> None:
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(307, headers={"location": "https://elsewhere.example/"})

    with answered(folder, answer) as connection, pytest.raises(LedgerError, match="redirect"):
        connection.checkpoint()
    assert len(asked) == 1


def test_an_answer_beyond_the_limit_is_dropped(
    folder: OfficerFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_connection, "MAX_ANSWER_BYTES", 1000)
    with (
        always(folder, 200, content=b'"' + b"x" * 2000 + b'"') as connection,
        pytest.raises(LedgerError, match="1000 bytes"),
    ):
        connection.checkpoint()


@pytest.mark.parametrize("content", [b"", b"[]", b"<html>", b"\xff", b"[" * 10_000])
def test_an_answer_that_is_no_record_is_a_ledger_error(folder: OfficerFolder, content: bytes) -> None:
    for status in (200, 500):
        with (
            always(folder, status, content=content) as connection,
            pytest.raises(LedgerError),
        ):
            connection.entry(1)


def test_an_error_that_the_server_states_comes_back_as_its_own_kind(desk: Desk) -> None:
    with AdminConnection(desk.folder) as connection, pytest.raises(FedaigcError) as caught:
        connection.entry(99)
    assert (caught.value.code, "no entry 99" in caught.value.what) == ("invalid_request", True)
    (desk.path / "officer.token").write_bytes(b"wrong-token")
    with AdminConnection(desk.folder) as connection, pytest.raises(NotAuthorised):
        connection.checkpoint()


def test_no_stated_error_leaves_with_the_exit_code_of_no_match_nor_steers_the_terminal(
    folder: OfficerFolder,
) -> None:
    for code in ("error", "nonsense", None, 7):
        stated = {"error": {"code": code, "what": "red\x1b[31m\nline", "why": 3, "do_next": "x" * 10_000}}
        with (
            always(folder, 500, json=stated) as connection,
            pytest.raises(LedgerError) as caught,
        ):
            connection.checkpoint()
        assert caught.value.exit_code > 1
        assert str(caught.value).isprintable() and len(str(caught.value)) < 1000
    with always(folder, 500, json={"error": 1}) as connection, pytest.raises(LedgerError):
        connection.checkpoint()


def test_a_compressed_answer_is_not_unpacked(folder: OfficerFolder) -> None:
    bomb = gzip.compress(bytes(10_000_000))
    with (
        always(folder, 200, content=bomb, headers={"content-encoding": "gzip"}) as connection,
        pytest.raises(LedgerError, match="compressed"),
    ):
        connection.checkpoint()


def test_nobody_there_is_told_as_unavailable(folder: OfficerFolder) -> None:
    with AdminConnection(folder) as connection, pytest.raises(Unavailable) as caught:
        connection.checkpoint()
    assert "start the server" in caught.value.do_next


def test_a_proof_that_is_none_is_refused(folder: OfficerFolder) -> None:
    for proof in (None, "x", ["?"], ["AAAA"], ["A" * 44] * 64, [7]):
        with (
            always(folder, 200, json={"proof": proof}) as connection,
            pytest.raises((LedgerError, VerificationFailed)),
        ):
            connection.consistency(1, 2)


def test_a_missing_ca_file_is_a_settings_error(tmp_path: Path) -> None:
    folder = OfficerFolder(
        write_folder(tmp_path / "o", Device(), "https://x.example", VKEY),
        "https://x.example",
        VKEY,
        tmp_path / "ca",
    )
    with pytest.raises(SettingsError, match="CA"):
        AdminConnection(folder)
