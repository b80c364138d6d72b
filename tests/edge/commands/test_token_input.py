"""A token need not be shown to every user of the machine: file, stdin and environment do as well."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from fedaigc.errors import SettingsError
from fedaigc_edge.commands.token_input import TOKEN_VARIABLE, token_text


def test_each_way_gives_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("fedaigc1file\n")
    monkeypatch.setattr(sys, "stdin", io.StringIO("fedaigc1stdin\n"))
    assert token_text("fedaigc1argument", None, {}) == "fedaigc1argument"
    assert token_text("-", None, {}) == "fedaigc1stdin\n"
    assert token_text(None, tmp_path / "token", {}) == "fedaigc1file\n"
    assert token_text(None, None, {TOKEN_VARIABLE: "fedaigc1environment"}) == "fedaigc1environment"


def test_the_command_line_wins_over_the_environment_and_no_child_inherits_the_token() -> None:
    environment = {TOKEN_VARIABLE: "fedaigc1environment", "OTHER": "kept"}
    assert token_text("fedaigc1argument", None, environment) == "fedaigc1argument"
    assert environment == {"OTHER": "kept"}


def test_two_tokens_are_one_too_many(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="Two join tokens"):
        token_text("fedaigc1a", tmp_path / "token", {})


def test_none_at_all_names_the_ways_that_ps_does_not_show() -> None:
    with pytest.raises(SettingsError, match=f"--token-file FILE, --token -, or set {TOKEN_VARIABLE}"):
        token_text(None, None, {})


def test_a_file_that_cannot_be_read_is_named_and_its_content_is_not(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"token file .*missing"):
        token_text(None, tmp_path / "missing", {})
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="it is not a text"):
        token_text(None, tmp_path / "binary", {})
