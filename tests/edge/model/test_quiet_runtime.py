from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedaigc_edge.model.quiet_runtime import QUIET, quiet_runtimes
from fedaigc_edge.model.store import ModelFolder
from tests.house.source_tree import ROOT

_SERVE = """
import sys
from pathlib import Path
from fedaigc_edge.engine.batching_generator import BatchingGenerator, EngineSettings
from fedaigc_edge.model.store import open_model
from tests.edge.served_model import answer_text
generator = BatchingGenerator(open_model(Path(sys.argv[1]), sys.argv[2]), EngineSettings(slots=1))
answer_text(generator, "a policy", 4)
generator.close()
"""


def test_the_variables_are_set_before_anything_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in QUIET:
        monkeypatch.delenv(name, raising=False)
    quiet_runtimes()
    assert os.environ["ORT_DISABLE_TELEMETRY"] == "1"
    assert os.environ["HF_HUB_OFFLINE"] == "1"


def test_serving_leaves_no_usage_store_in_the_home_folder(tiny_model: ModelFolder, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in QUIET}
    environment |= {"HOME": str(tmp_path), "PYTHONPATH": f"{ROOT}:{ROOT / 'edge_client'}"}
    environment.pop("XDG_CACHE_HOME", None)
    command = [sys.executable, "-c", _SERVE, str(tiny_model.root.parent), tiny_model.name]
    subprocess.run(command, env=environment, check=True, timeout=120, capture_output=True)
    assert [str(path) for path in tmp_path.rglob("*")] == []
