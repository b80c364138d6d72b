"""Keep the model runtimes on this machine: no usage events, no look-ups, before any of them is loaded.

ONNX Runtime and ONNX Runtime GenAI collect usage events on Linux by default and keep a device id in the home
folder; switching them off through their API comes too late, because loading them opens the store already.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

QUIET: Mapping[str, str] = {
    "ORT_DISABLE_TELEMETRY": "1",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "TOKENIZERS_PARALLELISM": "false",
    "TQDM_DISABLE": "1",
}
"""Environment for this process and for every child that loads a runtime."""


def quiet_runtimes() -> None:
    """Call before the first import of onnxruntime, onnxruntime_genai, transformers or huggingface_hub."""
    os.environ.update(QUIET)
