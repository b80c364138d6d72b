"""`fedaigc-edge join`: the token's checks, the address, and going on after the first time."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from fedaigc.errors import JoinTokenError, ModelError
from fedaigc.files import folder_lock
from fedaigc_edge.cli import device
from fedaigc_edge.commands import join as module
from fedaigc_edge.enrolment import Enrolment
from fedaigc_edge.settings import EdgeSettings
from tests.edge.enrolled import NODE, enrol_answer, token_for
from tests.edge.tls_server import TestCa, make_ca, tls_server


def _join(data: Path, *arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(device, ["join", "--data", str(data), *arguments], input=stdin)


def _answering(ca: TestCa) -> object:
    def answer(request: Request, body: bytes) -> Response:
        if request.url.path == "/v1/ca":
            return Response(ca.ca_file.read_bytes())
        return JSONResponse(enrol_answer(json.loads(body)["sealing_key"]))

    return answer


def test_a_device_joins_by_its_token_alone_and_says_who_it_is(tmp_path: Path) -> None:
    ca = make_ca(tmp_path / "ca")
    with tls_server(ca, _answering(ca)) as (address, _):  # type: ignore[arg-type]
        token = token_for(address, ca.sha256).encode()
        first = _join(tmp_path / "d", "--token", token, "--no-serve", "--name", "desk")
        again = _join(tmp_path / "d", "--token", "-", "--no-serve", stdin=token + "\n")
    assert (first.exit_code, again.exit_code) == (0, 0)
    assert f"Joined as {NODE}" in first.stderr
    assert f"Already joined as {NODE}" in again.stderr
    assert Enrolment.load(tmp_path / "d").name == "desk"


def test_under_json_enrolling_alone_prints_one_object_and_nothing_else(tmp_path: Path) -> None:
    ca = make_ca(tmp_path / "ca")
    with tls_server(ca, _answering(ca)) as (address, _):  # type: ignore[arg-type]
        token = token_for("elsewhere:1", ca.sha256).encode()
        asked = (f"https://{address}", "--token", token, "--no-serve", "--json", "--name", "desk")
        first, again = _join(tmp_path / "d", *asked), _join(tmp_path / "d", *asked)
    found = json.loads(first.stdout)
    assert (found["ready"], found["node"], found["name"], found["server"]) == (False, NODE, "desk", address)
    assert (found["joined_before"], json.loads(again.stdout)["joined_before"]) == (False, True)
    assert first.stderr == ""


def test_a_url_that_differs_from_the_token_wins_and_is_told(tmp_path: Path) -> None:
    ca = make_ca(tmp_path / "ca")
    with tls_server(ca, _answering(ca)) as (address, _):  # type: ignore[arg-type]
        token = token_for("elsewhere:1", ca.sha256).encode()
        result = _join(tmp_path / "d", f"https://{address}", "--token", token, "--no-serve")
    assert result.exit_code == 0
    assert f"The token names elsewhere:1; using {address}" in result.stderr


@pytest.mark.parametrize("text", ["", "fedaigc1abc", "hello", "-"])
def test_a_cut_token_is_exit_code_5_and_makes_no_folder(tmp_path: Path, text: str) -> None:
    result = _join(tmp_path / "d", "--token", text, "--no-serve", stdin="fedaigc1zzz")
    assert result.exit_code == JoinTokenError.exit_code
    assert not (tmp_path / "d").exists()


def test_a_token_for_another_role_is_refused(tmp_path: Path) -> None:
    token = replace(token_for("a:1", "0" * 64), role="officer").encode()
    result = _join(tmp_path / "d", "--token", token, "--no-serve")
    assert result.exit_code == JoinTokenError.exit_code
    assert "role" in result.stderr


def test_a_folder_in_use_is_told(tmp_path: Path) -> None:
    with folder_lock(tmp_path):
        result = _join(tmp_path, "--token", token_for("a:1", "0" * 64).encode(), "--no-serve")
    assert result.exit_code == 3
    assert "stop that process" in result.stderr


def test_a_wrong_server_is_exit_code_10(tmp_path: Path) -> None:
    ca = make_ca(tmp_path / "ca")
    with tls_server(ca, _answering(ca)) as (address, _):  # type: ignore[arg-type]
        result = _join(tmp_path / "d", "--token", token_for(address, "0" * 64).encode(), "--no-serve")
    assert result.exit_code == 10
    assert "not the one that made this token" in result.stderr


def test_pull_fetches_and_exports_only_a_missing_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedaigc_edge.model import export, pull, store

    done = list[str]()
    missing = [True]

    def open_model(models: Path, name: str) -> None:
        if missing[0]:
            raise ModelError("There is no model", "", "")

    monkeypatch.setattr(store, "open_model", open_model)
    monkeypatch.setattr(pull, "pull", lambda *given: done.append("pull"))
    monkeypatch.setattr(export, "export", lambda *given: done.append("export"))
    settings = EdgeSettings(models=tmp_path)
    module.pull_model(settings)
    missing[0] = False
    module.pull_model(settings)
    assert done == ["pull", "export"]


@pytest.mark.parametrize("state", ["missing", "damaged"])
def test_the_token_is_not_used_while_the_model_is_not_there(tmp_path: Path, state: str) -> None:
    ca, models = make_ca(tmp_path / "ca"), tmp_path / "models"
    if state == "damaged":
        (models / "smollm2-135m").mkdir(parents=True)
        (models / "smollm2-135m" / "model.json").write_text("{}")
    with tls_server(ca, _answering(ca)) as (address, seen):  # type: ignore[arg-type]
        token = token_for(address, ca.sha256).encode()
        result = _join(tmp_path / "d", "--token", token, "--models", str(models))
    assert result.exit_code == ModelError.exit_code
    assert "--pull" in result.stderr
    assert "still good" in result.stderr
    assert seen.paths() == []


def test_a_model_that_cannot_be_pulled_leaves_the_token_unused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(settings: EdgeSettings, silent: bool) -> None:
        raise ModelError("The model cannot be fetched", "offline", "connect the machine")

    monkeypatch.setattr(module, "pull_model", refuse)
    ca = make_ca(tmp_path / "ca")
    with tls_server(ca, _answering(ca)) as (address, seen):  # type: ignore[arg-type]
        token = token_for(address, ca.sha256).encode()
        result = _join(tmp_path / "d", "--token", token, "--pull")
    assert (result.exit_code, seen.paths()) == (ModelError.exit_code, [])


def test_a_token_from_a_file_or_the_environment_joins_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ca = make_ca(tmp_path / "ca")
    with tls_server(ca, _answering(ca)) as (address, _):  # type: ignore[arg-type]
        (tmp_path / "token").write_text(token_for(address, ca.sha256).encode() + "\n")
        by_file = _join(tmp_path / "a", "--token-file", str(tmp_path / "token"), "--no-serve")
        monkeypatch.setenv("FEDAIGC_TOKEN", token_for(address, ca.sha256).encode())
        by_environment = _join(tmp_path / "b", "--no-serve")
    assert (by_file.exit_code, by_environment.exit_code) == (0, 0)


def test_a_joined_folder_takes_no_url_unchecked_and_says_when_a_token_was_not_needed(tmp_path: Path) -> None:
    ca, data = make_ca(tmp_path / "ca"), tmp_path / "d"
    with tls_server(ca, _answering(ca)) as (old, _):  # type: ignore[arg-type]
        _join(data, "--token", token_for(old, ca.sha256).encode(), "--no-serve")
    token = token_for(old, ca.sha256).encode()
    nowhere = _join(data, "https://127.0.0.1:9", "--token", token, "--no-serve")
    assert (nowhere.exit_code, Enrolment.load(data).address) == (15, old)
    with tls_server(ca, _answering(ca)) as (new, _):  # type: ignore[arg-type]
        moved = _join(data, f"https://{new}", "--token", token, "--no-serve")
    assert (moved.exit_code, Enrolment.load(data).address) == (0, new)
    assert "still unused" in moved.stderr
