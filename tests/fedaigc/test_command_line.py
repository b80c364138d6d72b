"""One form for every error of a command line, our own and click's."""

from __future__ import annotations

import json

import click
import pytest
from click.testing import CliRunner, Result

from fedaigc.command_line import ToldGroup
from fedaigc.errors import Unavailable


@click.group(cls=ToldGroup)
def tool() -> None:
    """A command line of two commands."""


@tool.command()
@click.option("--number", type=click.IntRange(1, 9))
@click.option("--json", "as_json", is_flag=True)
def act(number: int | None, as_json: bool) -> None:
    """Fail as a command fails."""
    raise Unavailable("Nobody answers", "", "wait")


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(tool, arguments, prog_name="tool")


def test_an_error_of_ours_is_a_line_or_an_object_on_stderr() -> None:
    assert (_run("act").exit_code, _run("act").stderr) == (15, "Error: Nobody answers. Next: wait.\n")
    result = _run("act", "--json")
    assert (result.exit_code, result.stdout) == (15, "")
    assert json.loads(result.stderr)["error"]["code"] == "unavailable"


@pytest.mark.parametrize(
    ("arguments", "what", "help_of"),
    [
        (("act", "--number", "10", "--json"), "1<=x<=9", "tool act --help"),
        (("act", "--no-such", "--json"), "--no-such", "tool act --help"),
        (("nothing", "--json"), "nothing", "tool --help"),
        (("--json", "act"), "--json", "tool --help"),
    ],
)
def test_under_json_a_wrong_command_line_is_an_object_and_exit_code_2(
    arguments: tuple[str, ...], what: str, help_of: str
) -> None:
    result = _run(*arguments)
    error = json.loads(result.stderr)["error"]
    assert (result.exit_code, result.stdout, error["code"]) == (2, "", "settings")
    assert what in error["what"]
    assert help_of in error["do_next"]


def test_without_json_a_wrong_command_line_is_told_as_click_tells_it() -> None:
    result = _run("act", "--number", "10")
    assert result.exit_code == 2
    assert result.stderr.startswith("Usage: tool act")
