"""Asking the daemon: its answers, its errors, and its absence."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedaigc.errors import NotAuthorised, Unavailable
from fedaigc_edge.commands.daemon_call import API_FILE, api_url, ask_daemon
from fedaigc_edge.standing import StandingRecord
from tests.edge.commands.running_daemon import STATUS, running_daemon
from tests.edge.enrolled import enrolled


def test_the_daemons_answer_and_error_come_back(tmp_path: Path) -> None:
    error = NotAuthorised("Revoked", "lost", "ask").as_json()
    with running_daemon(tmp_path, {"/leave": (403, {"error": error})}):
        assert ask_daemon(tmp_path, "GET", "/status/full") == STATUS
        assert api_url(tmp_path).startswith("http://127.0.0.1:")
        with pytest.raises(NotAuthorised, match="lost"):
            ask_daemon(tmp_path, "POST", "/leave")


@pytest.mark.parametrize("left", [None, "", "{", "[]"])
def test_without_a_daemon_the_command_that_starts_one_is_named(tmp_path: Path, left: str | None) -> None:
    enrolled(tmp_path)
    if left is not None:
        (tmp_path / "run").mkdir()
        (tmp_path / API_FILE).write_text(left)
    for ask in (lambda: ask_daemon(tmp_path, "GET", "/status/full"), lambda: api_url(tmp_path)):
        with pytest.raises(Unavailable, match="fedaigc-edge run"):
            ask()


def test_a_device_that_left_or_never_joined_is_told_to_join(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="fedaigc-edge join"):
        api_url(tmp_path)
    enrolled(tmp_path)
    StandingRecord(tmp_path).left()
    with pytest.raises(Unavailable, match=r"not joined to a server.*fedaigc-edge join") as caught:
        ask_daemon(tmp_path, "GET", "/status/full")
    assert "edge run" not in str(caught.value)
