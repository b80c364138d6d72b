"""The commands in front of an admin port that the test plays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fedaigc_server.cli import server
from fedaigc_server.commands import admin_call

Run = Callable[..., Result]
Asked = list[tuple[str, str, Any]]


@pytest.fixture
def asked() -> Asked:
    """What was asked: method, path, body."""
    return []


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, asked: Asked) -> Run:
    """`run(answer, *arguments)`: one command whose only call is answered with `answer`."""

    def call(answer: dict[str, Any], *arguments: str) -> Result:
        def ask(data: Path, method: str, path: str, body: Any = None) -> dict[str, Any]:
            asked.append((method, path, body))
            return answer

        monkeypatch.setattr(admin_call, "ask_admin", ask)
        return CliRunner().invoke(server, arguments)

    return call
