"""A device for the clients of one module, and clients that are installed on demand."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.cached_venv import cached_venv
from bench.failure import BenchFailed
from tests.fleet import Edge
from tests.house.source_tree import ROOT
from tests.tiny_device import tiny_device

CACHE = ROOT / ".bench" / "clients"
NO_REGISTRY = (
    "NewConnectionError", "NameResolutionError", "ConnectTimeout", "ReadTimeout", "ProxyError",
    "ENOTFOUND", "EAI_AGAIN", "ETIMEDOUT", "ECONNREFUSED",
)  # fmt: skip


@pytest.fixture(scope="package")
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    """A device with a tiny model, joined to a server."""
    with tiny_device(tmp_path_factory.mktemp("clients")) as edge:
        yield edge


@pytest.fixture(scope="session")
def python_with() -> Callable[[str], Path]:
    """The Python of a virtual environment with one package, for example "litellm==1"."""

    def install(requirement: str) -> Path:
        name = requirement.split("==", maxsplit=1)[0]
        CACHE.mkdir(parents=True, exist_ok=True)
        try:
            # A client's own pins count: it must work as its users install it.
            return cached_venv(CACHE / name, (requirement,), None)
        except BenchFailed as error:
            _skip_without_registry(str(error))
            raise

    return install


@pytest.fixture(scope="session")
def node_with() -> Callable[[str, str], Path]:
    """A folder in which node finds one package of this version."""

    def install(name: str, version: str) -> Path:
        folder = CACHE / f"npm-{name}-{version}"
        if not (folder / "node_modules" / name / "package.json").exists():
            folder.mkdir(parents=True, exist_ok=True)
            command = [
                "npm",
                "install",
                "--no-audit",
                "--no-fund",
                "--prefix",
                str(folder),
                f"{name}@{version}",
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
            if done.returncode != 0:
                _skip_without_registry(done.stderr)
                pytest.fail(f"npm install {name}@{version}:\n{done.stderr[-2000:]}")
        return folder

    return install


def _skip_without_registry(said: str) -> None:
    if any(word in said for word in NO_REGISTRY):
        pytest.skip("the package registry cannot be reached")
