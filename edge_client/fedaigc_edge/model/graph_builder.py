"""Build the ONNX graph with ORT-GenAI's builder, in a child process that dies with us and frees its
memory."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from pathlib import Path

from fedaigc.child_process import ChildSpec, start_child, stop_child
from fedaigc.errors import ModelError
from fedaigc_edge.model.quiet_runtime import QUIET

CONFIG_FILE = "genai_config.json"
BUILDER = "onnxruntime_genai.models.builder"
_COMMON_OPTIONS = ("prune_lm_head=true", "fuse_qkv=true")
# Of the 4-bit recipes this mix keeps the most quality: top-1 agreement 81 % instead of 69 %.
_EXTRA_OPTIONS = {
    "int8": (),
    "fp32": (),
    "int4": ("algo_config=k_quant", "matmul_mixed_precision=last_matmul:int8,mixed_layers:int8"),
}
_LOG_TAIL_BYTES = 4096
NICE = 5


def build_graph(hf: Path, target: Path, precision: str, log: Path) -> None:
    """Export the folder `hf` to the new folder `target` with genai_config.json and tokenizer.

    Must run in the main thread. Raises ModelError with the last line of the builder's log.
    """
    cache = target.with_name(target.name + ".cache")
    command = [sys.executable, "-m", BUILDER]
    command += ["-i", str(hf), "-o", str(target), "-p", precision, "-e", "cpu", "-c", str(cache)]
    command += ["--extra_options", *_COMMON_OPTIONS, *_EXTRA_OPTIONS[precision]]
    log.unlink(missing_ok=True)
    spec = ChildSpec("the graph builder", tuple(command), hf.parent, log, QUIET, NICE)
    try:
        code = asyncio.run(_run(spec))
    finally:
        shutil.rmtree(cache, ignore_errors=True)
    if code != 0 or not (target / CONFIG_FILE).is_file():
        raise _failed(code, log)


def eos_tokens_of(served: Path) -> tuple[int, ...]:
    """The tokens that end an answer, as the builder found them; raises ModelError."""
    try:
        found = json.loads((served / CONFIG_FILE).read_bytes())["model"]["eos_token_id"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(
            f"{served / CONFIG_FILE} cannot be read", type(error).__name__, "export the model again"
        ) from error
    return tuple(int(token) for token in (found if isinstance(found, list) else [found]))


async def _run(spec: ChildSpec) -> int:
    process = await start_child(spec)
    try:
        return await process.wait()
    finally:
        await stop_child(process)


def _failed(code: int, log: Path) -> ModelError:
    tail = log.read_bytes()[-_LOG_TAIL_BYTES:].decode("utf-8", "replace") if log.exists() else ""
    last = (tail.strip().splitlines() or [f"exit code {code}"])[-1][-300:]
    do_next = f"read {log}"
    if "No module named" in tail:
        do_next = "run: pip install 'fedaigc[edge,train]'"
    elif code < 0:
        last, do_next = f"it was ended by signal {-code}", "free some memory and run the same command again"
    return ModelError("The graph builder failed", last, do_next)
