from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedaigc.errors import FolderInUse, ModelError
from fedaigc.files import folder_lock
from fedaigc_edge.model.export import ExportPlan, export
from fedaigc_edge.model.pull import pull
from fedaigc_edge.model.store import ModelFolder, open_model
from tests.house.source_tree import ROOT
from tests.tiny_model import TINY_NAME, copy_of, export_tiny, make_tiny_hf_folder

PLAN = ExportPlan("fp32", lora_layers=2, rank=4, alpha=8.0)
_EXPORT = """
import sys
from pathlib import Path
from tests.tiny_model import export_tiny
export_tiny(Path(sys.argv[1]), Path(sys.argv[2]))
"""


def test_the_record_holds_plan_parity_and_versions(tiny_model: ModelFolder) -> None:
    assert tiny_model.export["plan"] == PLAN.to_json()
    assert tiny_model.export["parity"]["change_cosine"] > 0.999
    assert "onnxruntime-genai" in tiny_model.export["tools"]
    assert tiny_model.source["family"] == "llama"


def test_the_second_export_does_nothing(tiny_model: ModelFolder) -> None:
    steps: list[str] = []
    assert export(TINY_NAME, tiny_model.root.parent, steps.append, PLAN) == tiny_model
    assert steps == []


@pytest.mark.slow
def test_a_damaged_export_is_made_again_with_the_same_hash(tiny_model: ModelFolder, tmp_path: Path) -> None:
    models = copy_of(tiny_model, tmp_path)
    (models / TINY_NAME / "onnx" / "model.onnx.data").write_bytes(b"damaged")
    (models / TINY_NAME / "hf" / "model.safetensors").write_bytes(b"damaged too")
    again = export(TINY_NAME, models, lambda step: None, PLAN)
    assert again.base_model == tiny_model.base_model
    assert open_model(models, TINY_NAME) == again


def test_a_model_that_was_not_pulled_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as refused:
        export("smollm2-135m", tmp_path, lambda step: None)
    assert refused.value.do_next.endswith("model pull smollm2-135m")


def test_an_unknown_precision_is_refused(tiny_model: ModelFolder) -> None:
    with pytest.raises(ModelError, match="precision"):
        export(TINY_NAME, tiny_model.root.parent, lambda step: None, ExportPlan("int2"))


def test_more_adapted_layers_than_the_model_has_are_refused_before_building(tmp_path: Path) -> None:
    pull(str(make_tiny_hf_folder(tmp_path / "hf")), tmp_path / "models", lambda step: None, "m")
    with pytest.raises(ModelError, match="2 layers"):
        export("m", tmp_path / "models", lambda step: None, ExportPlan("fp32", lora_layers=3))


def test_two_exports_of_one_model_do_not_mix(tiny_model: ModelFolder, tmp_path: Path) -> None:
    models = copy_of(tiny_model, tmp_path)
    with folder_lock(models / TINY_NAME), pytest.raises(FolderInUse):
        export(TINY_NAME, models, lambda step: None, PLAN)


@pytest.mark.slow
@pytest.mark.parametrize("seen", [".hf.part", "hf", ".onnx.part", ".onnx.part/plain.onnx", "onnx"])
def test_an_export_killed_at_any_step_is_finished_by_running_it_again(
    tiny_model: ModelFolder, tmp_path: Path, seen: str
) -> None:
    folder = make_tiny_hf_folder(tmp_path / "hf")
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'edge_client'}"}
    command = [sys.executable, "-c", _EXPORT, str(folder), str(tmp_path / "models")]
    child = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    watched = tmp_path / "models" / TINY_NAME / seen
    while not watched.exists() and child.poll() is None:
        time.sleep(0.002)
    child.send_signal(signal.SIGKILL)
    child.wait()
    if seen != "onnx":
        with pytest.raises(ModelError):
            open_model(tmp_path / "models", TINY_NAME)
    again = export_tiny(folder, tmp_path / "models")
    assert again.base_model == tiny_model.base_model
    leftovers = [path.name for path in again.root.iterdir() if path.name.startswith(".")]
    assert leftovers == []
