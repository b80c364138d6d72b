from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from fedaigc import __version__
from fedaigc_server import ledger_cli
from fedaigc_server.ledger_cli import cli, run
from tests.server.officer.desk import Desk, officers_desk

TEXT = "The committee approved the plan on Tuesday."


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    with officers_desk(tmp_path) as opened:
        monkeypatch.setenv("FEDAIGC_OFFICER", str(opened.path))
        monkeypatch.delenv("FEDAIGC_CASE", raising=False)
        yield opened


@pytest.fixture
def letter(tmp_path: Path) -> Path:
    path = tmp_path / "letter.txt"
    path.write_text(TEXT)
    return path


def test_a_match_exits_with_0_and_no_match_with_1(
    desk: Desk, letter: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["search", str(letter), "--case", "7"]) == 1
    assert capsys.readouterr().out.startswith("Verdict: no match")
    desk.record(TEXT)
    assert run(["search", str(letter), "--case", "7"]) == 0
    assert capsys.readouterr().out.startswith("Verdict: exact")
    letter.write_text(TEXT.replace(" ", "\n"))
    assert run(["search", str(letter), "--case", "7", "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["verdict"] == "canonical"
    assert captured.err == ""


def test_a_search_without_a_case_says_what_is_recorded(
    desk: Desk, letter: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(["search", str(letter)])
    assert "recorded as unstated" in capsys.readouterr().err
    monkeypatch.setenv("FEDAIGC_CASE", "2026-117")
    run(["search", str(letter)])
    assert capsys.readouterr().err == ""
    assert b"2026-117" in desk.ledger.entry(1)


def test_a_saved_match_verifies_with_no_server_at_all(
    desk: Desk,
    letter: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk.record(TEXT)
    assert run(["search", str(letter), "--case", "7", "--save", str(tmp_path / "evidence")]) == 0
    receipt = str(tmp_path / "evidence" / "0.tlog-proof")

    def no_network(*_: object) -> None:
        raise AssertionError("verify must not use the network")

    monkeypatch.setattr("socket.socket.connect", no_network)
    capsys.readouterr()
    assert run(["verify", receipt]) == 0
    assert run(["verify", receipt, "--content", str(letter), "--json"]) == 0
    record = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (record["verdict"], record["index"], record["kind"]) == ("exact", 0, "output")
    letter.write_text("another text")
    assert run(["verify", receipt, "--content", str(letter)]) == 1
    assert run(["verify", receipt, "--log-key", desk.ledger.vkey, "--officer", "/absent"]) == 0
    text = Path(receipt).read_text()
    Path(receipt).write_text(text.replace("index 0", "index 1"))
    assert run(["verify", receipt]) == 10


def test_an_entry_is_shown_and_its_receipt_saved(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.record(TEXT)
    assert run(["show", "0", "--save", str(tmp_path / "0.tlog-proof")]) == 0
    assert capsys.readouterr().out.startswith("Entry 0: output")
    assert run(["verify", str(tmp_path / "0.tlog-proof"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["body"]["policy"] == 3
    assert run(["show", "7"]) == 2
    assert "no entry 7" in capsys.readouterr().err


def test_the_status_follows_the_ledger(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status"]) == 0
    assert "first look" in capsys.readouterr().out
    desk.record(TEXT)
    assert run(["status", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["size"], record["seen_before"]) == (1, 0)


def test_a_lying_ledger_is_never_reported_as_no_match(
    desk: Desk, letter: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.record(TEXT)
    desk.admin.rewrite = lambda answer: {
        **answer,
        "matches": [{**m, "opening": "AAAA"} for m in answer["matches"]],
    }
    assert run(["search", str(letter), "--case", "7"]) == 10
    assert "do not check" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["search", "absent.txt", "--case", "7"], 3),
        (["search"], 2),
        (["search", "x", "--months", "many"], 2),
        (["show", "-1"], 2),
        (["nonsense"], 2),
        (["verify", "absent.tlog-proof"], 3),
        (["status", "--officer", "/absent"], 4),
    ],
)
def test_each_failure_has_its_own_exit_code_and_none_is_no_match(
    desk: Desk, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int
) -> None:
    assert run(arguments) == code
    captured = capsys.readouterr()
    assert captured.err and not captured.out


def test_a_wrong_token_and_an_absent_server_have_their_own_exit_codes(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    token = (desk.path / "officer.token").read_bytes()
    (desk.path / "officer.token").write_bytes(b"wrong")
    assert run(["status"]) == 6
    (desk.path / "officer.token").write_bytes(token)
    record = {"admin_url": "http://127.0.0.1:9", "log_vkey": desk.ledger.vkey}
    (desk.path / "officer.json").write_text(json.dumps(record))
    assert run(["status"]) == 15
    assert "Next: start the server" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"), [(RuntimeError("text"), 70), (BrokenPipeError(), 141), (KeyboardInterrupt(), 130)]
)
def test_a_crash_a_closed_pipe_or_an_interrupt_is_never_read_as_no_match(
    desk: Desk,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    code: int,
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(ledger_cli, "_print", fail)
    assert run(["status"]) == code
    assert "text" not in capsys.readouterr().err


@pytest.mark.parametrize("command", [[], ["search"], ["show"], ["verify"], ["status"]])
def test_every_help_shows_an_example_and_the_exit_codes(command: list[str]) -> None:
    shown = CliRunner().invoke(cli, [*command, "--help"])
    assert shown.exit_code == 0
    assert "Example: fedaigc-ledger" in shown.output
    assert "Exit codes: 0" in shown.output
    assert run([*command, "--help"]) == 0


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert __version__ in capsys.readouterr().out


def test_the_command_starts_without_its_heavy_parts() -> None:
    heavy = "{'httpx', 'rich', 'numpy', 'sqlite3'}"
    code = f"import sys, fedaigc_server.ledger_cli; print(sorted({heavy} & set(sys.modules)))"
    path = ":".join(each for each in sys.path if each)
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": path}
    )
    assert shown.stdout == "[]\n"


def test_under_json_a_wrong_option_is_an_object_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["search", "letter.txt", "--months", "many", "--json"]) == 2
    captured = capsys.readouterr()
    error = json.loads(captured.err)["error"]
    assert (captured.out, error["code"]) == ("", "settings")
    assert "many" in error["what"]
    assert "fedaigc-ledger search --help" in error["do_next"]
