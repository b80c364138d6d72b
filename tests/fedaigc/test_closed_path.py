from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from fedaigc.closed_path import closed_path


def test_only_the_named_programs_are_found(tmp_path: Path) -> None:
    path = closed_path(tmp_path / "bin", {"say": (sys.executable, "-c", "print('said')")})
    assert shutil.which("say", path=path)
    assert shutil.which("sh", path=path) is None


def test_a_program_gets_its_arguments_even_with_spaces_and_quotes(tmp_path: Path) -> None:
    command = (sys.executable, "-c", "import sys; print(sys.argv[1:])", "it's one")
    path = closed_path(tmp_path / "a b", {"say": command})
    said = subprocess.run([f"{path}/say", "two words"], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == repr(["it's one", "two words"])


def test_what_an_earlier_version_left_is_gone(tmp_path: Path) -> None:
    closed_path(tmp_path / "bin", {"old": ("true",)})
    path = closed_path(tmp_path / "bin", {"new": ("true",)})
    assert [entry.name for entry in Path(path).iterdir()] == ["new"]


def test_nobody_else_can_change_or_read_the_programs(tmp_path: Path) -> None:
    path = Path(closed_path(tmp_path / "bin", {"say": ("true",)}))
    assert path.stat().st_mode & 0o777 == 0o700
    assert (path / "say").stat().st_mode & 0o777 == 0o700
