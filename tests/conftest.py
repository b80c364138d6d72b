"""Fixtures that several folders share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet import MODEL, Edge, Server, stop_all
from tests.house.source_tree import ROOT
from tests.tiny_model import tiny_model  # noqa: F401 (a fixture)


@pytest.fixture(scope="session")
def models() -> Path:
    """The folder with the exported real model; skips where it is missing."""
    folder = Path(os.environ.get("FEDAIGC_MODELS", ROOT / ".demo" / "models"))
    if not (folder / MODEL / "model.json").exists():
        pytest.skip(f"no {MODEL} in {folder}: run `make model`, or set FEDAIGC_MODELS")
    return folder.resolve()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A running server for the tests of one module."""
    one = Server(tmp_path_factory.mktemp("fleet"))
    one.start()
    yield one
    stop_all(one)


@pytest.fixture(scope="module")
def edges(server: Server, models: Path) -> Iterator[list[Edge]]:
    """Two joined devices with the demo's feedback, for the tests of one module."""
    joined = [Edge(name, server.root, models) for name in ("edge-1", "edge-2")]
    try:
        for edge in joined:
            edge.join(f"https://127.0.0.1:{server.port}", server.token("test")["token"])
        yield joined
    finally:
        stop_all(*joined)
