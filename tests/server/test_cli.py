from __future__ import annotations

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from fedaigc.errors import NotAuthorised
from fedaigc_server.cli import server
from tests.server.live_server import environment


def commands(group: click.Group, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], click.Command]]:
    found = []
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            found += commands(command, (*path, name))
        else:
            found.append(((*path, name), command))
    return found


ALL = commands(server)


def test_the_commands_are_the_ones_that_were_promised() -> None:
    assert {" ".join(path) for path, _ in ALL} == {
        "start", "status", "token create", "node list", "node revoke",
        "round run", "round list", "round show", "policy list",
    }  # fmt: skip


@pytest.mark.parametrize(("path", "command"), ALL, ids=[" ".join(path) for path, _ in ALL])
def test_every_command_has_an_example_exit_codes_and_json(
    path: tuple[str, ...], command: click.Command
) -> None:
    shown = CliRunner().invoke(server, [*path, "--help"]).output
    assert "Example:" in shown
    assert f"fedaigc-server {' '.join(path)}" in shown
    assert "Exit codes: 0" in shown
    assert "--data" in shown
    assert path == ("start",) or "--json" in shown


def test_an_error_goes_to_stderr_with_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def fails() -> None:
        raise NotAuthorised("No", "because", "ask")

    monkeypatch.setitem(server.commands, "fails", fails)
    result = CliRunner().invoke(server, ["fails"])
    assert result.exit_code == NotAuthorised.exit_code
    assert result.stderr == "Error: No. Why: because. Next: ask.\n"
    assert result.stdout == ""


def test_the_command_line_starts_without_the_heavy_parts() -> None:
    code = (
        "import sys, fedaigc_server.cli;"
        "bad={'flwr','uvicorn','numpy','cryptography','starlette','rich'} & set(sys.modules);"
        "sys.exit(str(bad) if bad else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
