"""Make the graph that a device serves: of any precision, in the engine's form, with inputs for adapters."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from fedaigc.adapter import AdapterShape
from fedaigc.errors import ModelError
from fedaigc_edge.model.architecture import Architecture
from fedaigc_edge.model.batching_graph import make_batching_graph
from fedaigc_edge.model.exact_graph import put_exact_weights
from fedaigc_edge.model.exact_weights import ExactWeights
from fedaigc_edge.model.fine_activations import refine_activations
from fedaigc_edge.model.gguf_blocks import EXACT_KINDS, GgufBlocks
from fedaigc_edge.model.graph_builder import CONFIG_FILE, build_graph, eos_tokens_of
from fedaigc_edge.model.graph_runs import Prompts
from fedaigc_edge.model.hf_folder import gguf_in
from fedaigc_edge.model.lora_inputs import add_lora_inputs
from fedaigc_edge.model.lora_layout import LoraPair
from fedaigc_edge.model.outlier_channels import find_outliers
from fedaigc_edge.model.shared_embedding import DATA_FILE, share_embedding
from fedaigc_edge.model.store import GRAPH_FILE

Q41_EXACT = "q41-exact"
PRECISIONS = (Q41_EXACT, "int8", "int4", "fp32")
"""q41-exact: a Q4_1 GGUF's own weights, none rounded again; int8: nearly the source's quality, of any source;
int4: a little faster at one caller, and visibly worse on small models; fp32: for comparison and tests."""
PLAIN_GRAPH = "plain.onnx"
"""The served graph before it got inputs for adapters; the caller removes it."""
_BUILT_GRAPH, _CHANGED = "built.onnx", "changed"


@dataclass(frozen=True)
class GraphPlan:
    """What to make: `source` is the pulled folder, `hf` what was made of it, `prompts` are tokens of a text.

    The reward head reads after decoder layer `head_layer`.
    """

    source: Path
    family: str
    hf: Path
    precision: str
    architecture: Architecture
    shape: AdapterShape
    head_layer: int
    prompts: Prompts

    @property
    def first_layer(self) -> int:
        """The first layer that adapters change."""
        return min(slot.layer for slot in self.shape.slots)


@dataclass(frozen=True)
class ServedGraph:
    """Where the graph takes adapters, and which tokens end an answer."""

    lora_inputs: tuple[LoraPair, ...]
    eos_tokens: tuple[int, ...]


def best_precision(source: Path) -> str:
    """What to export a pulled folder with when nothing is asked for; raises ModelError for a damaged file."""
    gguf = gguf_in(source)
    return Q41_EXACT if gguf is not None and not GgufBlocks(gguf).inexact() else "int8"


def check_precision(source: Path, precision: str) -> None:
    """Raise ModelError when the precision is unknown, or the source's weights do not allow it."""
    if precision not in PRECISIONS:
        raise ModelError(f"Unknown precision {precision}", f"known are {', '.join(PRECISIONS)}", "use one")
    if precision != Q41_EXACT:
        return
    gguf = gguf_in(source)
    inexact = GgufBlocks(gguf).inexact() if gguf is not None else ["Hugging Face's safetensors"]
    if inexact:
        raise ModelError(
            f"This model cannot be exported with {Q41_EXACT}",
            f"not of type {' or '.join(EXACT_KINDS)}: {', '.join(inexact[:3])}",
            "export with --precision int8",
        )


def make_served_graph(plan: GraphPlan, served: Path, log: Path) -> ServedGraph:
    """Fill the new folder `served` with graph, weights and tokenizer, and PLAIN_GRAPH beside them.

    Must run in the main thread. Raises ModelError.
    """
    exact = plan.precision == Q41_EXACT
    build_graph(plan.hf, served, "fp32" if exact else plan.precision, log)
    eos_tokens = eos_tokens_of(served)
    # The engine reads the model's record instead; that file would describe a graph of another form.
    (served / CONFIG_FILE).unlink()
    if plan.architecture.tied and not exact:
        _share(served)
    built, plain, sizes = served / _BUILT_GRAPH, served / PLAIN_GRAPH, plan.architecture
    make_batching_graph(served / GRAPH_FILE, built, plan.head_layer, sizes.layers, sizes.hidden)
    if exact:
        _put_exact(plan, built, served)
    else:
        refine_activations(built, plain, plan.first_layer)
    built.unlink()
    pairs = add_lora_inputs(plain, served / GRAPH_FILE, plan.shape, plan.architecture)
    return ServedGraph(pairs, eos_tokens)


def _put_exact(plan: GraphPlan, built: Path, served: Path) -> None:
    gguf = gguf_in(plan.source)
    if gguf is None:
        raise ModelError(f"{plan.source} holds no GGUF file", "", "export with --precision int8")
    outliers = find_outliers(built, plan.prompts, plan.architecture, plan.first_layer)
    weights = ExactWeights(GgufBlocks(gguf), plan.architecture, plan.family)
    with _Changed(served) as folder:
        width = plan.architecture.heads * plan.architecture.head_dim
        put_exact_weights(built, folder / PLAIN_GRAPH, weights, outliers, width)


def _share(served: Path) -> None:
    with _Changed(served) as folder:
        share_embedding(served / GRAPH_FILE, folder / GRAPH_FILE)


class _Changed:
    """A folder in `served` whose files replace those of the same name there when its block ends."""

    def __init__(self, served: Path) -> None:
        self._served = served
        self._folder = served / _CHANGED

    def __enter__(self) -> Path:
        self._folder.mkdir()
        return self._folder

    def __exit__(self, *error: object) -> None:
        # Weights last: a graph is of no use without its own.
        for path in sorted(self._folder.iterdir(), key=lambda path: path.name == DATA_FILE):
            path.replace(self._served / path.name)
        shutil.rmtree(self._folder)
