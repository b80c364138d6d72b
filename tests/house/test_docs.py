"""What the documents say is what the code does."""

from __future__ import annotations

import inspect
import re
import subprocess
import tomllib
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from fedaigc import errors
from fedaigc.settings import load_settings
from fedaigc_edge.settings import EdgeSettings
from fedaigc_server.settings import ServerSettings
from tests.house.source_tree import ROOT

FORBIDDEN_WORDS = re.compile(r"pypi\.org|registry\.npmjs|huggingface\.co|/opt/|/root/|/work/", re.IGNORECASE)


def test_every_exit_code_is_documented_and_every_documented_code_exists() -> None:
    table = (ROOT / "docs" / "exit-codes.md").read_text(encoding="utf-8")
    documented = {
        (int(row[1]), name)
        for row in re.finditer(r"^\| (\d+) \| ([^|]*) \|", table, re.MULTILINE)
        for name in re.findall(r"`([a-z_]+)`", row[2])
    }
    existing = {
        (kind.exit_code, kind.code)
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.FedaigcError)
    }
    assert documented == existing


@pytest.mark.parametrize(("name", "kind"), [("edge", EdgeSettings), ("server", ServerSettings)])
def test_the_example_settings_name_every_key_with_its_default(name: str, kind: type[Any]) -> None:
    path = ROOT / "configs" / f"{name}.toml"
    text = path.read_text(encoding="utf-8")
    assert load_settings(kind, path) == kind()
    # Optional keys without a default are shown as comments.
    shown = set(re.findall(r"^#? ?([a-z_]+) =", text, re.MULTILINE)) | set(
        re.findall(r"^\[([a-z_.]+)\]", text, re.MULTILINE)
    )
    for field in fields(kind):
        assert field.name in shown, f"{path.name} does not show {field.name}"
        if is_dataclass(field.type):
            assert {inner.name for inner in fields(field.type)} <= shown
    tomllib.loads(text)


def test_no_tracked_file_names_a_registry_or_a_machine_path() -> None:
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    allowed = {
        "tests/house/test_docs.py",
        "packaging/docker/edge.Dockerfile",
        "packaging/docker/server.Dockerfile",
    }
    for name in tracked:
        if name in allowed or name.startswith("packaging/systemd/"):
            continue
        found = FORBIDDEN_WORDS.search((ROOT / name).read_text(encoding="utf-8", errors="replace"))
        assert found is None, f"{name} says {found.group() if found else ''}"
