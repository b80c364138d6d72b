"""What a reader must know to judge a benchmark's figures, or to repeat them."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

from bench.core_pinning import bench_core
from fedaigc_edge.model.store import ModelFolder

PACKAGES = ("fedaigc", "onnxruntime", "numpy", "onnx", "transformers", "torch")
KV_DTYPE = "float32"
"""What the engine keeps keys and values in."""
_CPU_INFO = Path("/proc/cpuinfo")


def run_manifest(model: ModelFolder, context: int, threads: int) -> dict[str, Any]:
    """Model, context in tokens, KV dtype, threads, versions and processor of a run."""
    sizes = model.architecture
    return {
        "model": model.name,
        "source": dict(model.source),
        "layers": sizes.layers,
        "context": context,
        "model_context": sizes.context,
        "kv_dtype": KV_DTYPE,
        "kv_bytes_per_token": 2 * sizes.layers * sizes.kv_heads * sizes.head_dim * 4,
        "threads": threads,
        "core": bench_core(),
        "load": round(os.getloadavg()[0], 2),
        "versions": {"python": platform.python_version(), **_versions()},
        "cpu": _cpu(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _cpu() -> str:
    if not _CPU_INFO.exists():
        return platform.processor()
    lines = _CPU_INFO.read_text(encoding="utf-8", errors="replace").splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
