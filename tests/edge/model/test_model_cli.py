from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from fedaigc.errors import ModelError
from fedaigc_edge.model.model_cli import model
from fedaigc_edge.model.store import ModelFolder
from tests.house.source_tree import ROOT
from tests.tiny_model import TINY_NAME, make_tiny_hf_folder


def run(*arguments: str) -> str:
    result = CliRunner().invoke(model, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_pull_says_what_to_do_next(tmp_path: Path) -> None:
    folder = make_tiny_hf_folder(tmp_path / "hf")
    said = run("pull", str(folder), "--name", "m", "--models", str(tmp_path / "models"))
    assert said.strip() == "m (llama) pulled. Next: fedaigc-edge model export m"
    again = json.loads(
        run("pull", str(folder), "--name", "m", "--models", str(tmp_path / "models"), "--json")
    )
    assert again == {"name": "m", "family": "llama", "fetched": False}


def test_export_prints_the_hash_as_json(tiny_model: ModelFolder) -> None:
    options = ["--precision", "fp32", "--lora-layers", "2", "--rank", "4", "--alpha", "8"]
    said = json.loads(run("export", TINY_NAME, *options, "--models", str(tiny_model.root.parent), "--json"))
    assert said["base_model"] == tiny_model.base_model and said["rank"] == 4


def test_the_head_and_the_targets_of_adapters_can_be_chosen(tmp_path: Path) -> None:
    folder = make_tiny_hf_folder(tmp_path / "hf")
    store = ("--models", str(tmp_path / "models"))
    run("pull", str(folder), "--name", "m", *store)
    options = ["--precision", "fp32", "--lora-layers", "1", "--targets", "v,o", "--head-layer", "2"]
    said = json.loads(run("export", "m", *options, *store, "--json"))
    assert said["slots"] == ["layers.1.v_proj", "layers.1.o_proj"]
    assert (said["head_layer"], said["precision"]) == (2, "fp32")
    with pytest.raises(ModelError, match="targets"):
        run("export", "m", "--lora-layers", "1", "--targets", "q,x", *store)
    with pytest.raises(ModelError, match="2 layers"):
        run("export", "m", "--lora-layers", "1", "--head-layer", "3", *store)


def test_list_reads_the_store_named_by_the_variable(
    tiny_model: ModelFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDAIGC_MODELS", str(tiny_model.root.parent))
    assert [row["name"] for row in json.loads(run("list", "--json"))] == [TINY_NAME]
    assert tiny_model.base_model[:16] in run("list")


def test_an_empty_store_says_how_to_begin(tmp_path: Path) -> None:
    assert "model pull smollm2-135m" in run("list", "--models", str(tmp_path))


def test_errors_of_our_tree_reach_the_caller(tmp_path: Path) -> None:
    with pytest.raises(ModelError):
        run("export", "nothing", "--models", str(tmp_path))


@pytest.mark.parametrize("command", [[], ["pull"], ["export"], ["list"]])
def test_every_help_shows_an_example(command: list[str]) -> None:
    assert "Example:" in run(*command, "--help")


def test_the_command_line_starts_without_a_runtime() -> None:
    code = (
        "import sys, fedaigc_edge.model.model_cli;"
        "print([m for m in ('torch', 'onnx', 'onnxruntime', 'onnxruntime_genai', 'transformers', 'gguf')"
        " if m in sys.modules])"
    )
    environment = {"PYTHONPATH": f"{ROOT}:{ROOT / 'edge_client'}"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
