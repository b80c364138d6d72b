"""Perplexity of the served model and of llama.cpp's, on the same tokens."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.failure import BenchFailed
from bench.llama import Llama
from bench.prose import windows
from fedaigc.fingerprint import blob_digest
from fedaigc_edge.model.store import read_record

SECONDS = 1800.0


@dataclass(frozen=True)
class Quality:
    """Measures perplexities of one model, and keeps them: the same weights and text give the same number."""

    model_root: Path
    cache: Path
    count: int

    def ours(self) -> float:
        """Of the graph that the device serves."""
        model = read_record(self.model_root)
        words = [sys.executable, "-m", "bench.served_perplexity", self.model_root, self._text(), _threads()]
        return self._known(f"ours-{model.base_model[:16]}", lambda: _printed(words))

    def llama(self, llama: Llama, gguf: Path) -> float:
        """Of a GGUF file in llama.cpp."""
        name = f"llama-{blob_digest(gguf.read_bytes())[:16]}"
        return self._known(name, lambda: float(llama.run("perplexity", gguf, self._text(), _threads())))

    def _text(self) -> Path:
        path = self.cache / f"windows-{self.count}.npy"
        np.save(path, windows(self.model_root, self.count))
        return path

    def _known(self, name: str, measure: Callable[[], float]) -> float:
        text = blob_digest(self._text().read_bytes())[:16]
        path = self.cache / f"perplexity-{name}-{text}.json"
        if not path.exists():
            path.write_text(json.dumps(measure()), encoding="utf-8")
        return float(json.loads(path.read_text(encoding="utf-8")))


def _threads() -> int:
    return len(os.sched_getaffinity(0))


def _printed(words: list[object]) -> float:
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, timeout=SECONDS)
    if done.returncode != 0:
        raise BenchFailed(f"{' '.join(map(str, words[:3]))} gave {done.returncode}:\n{done.stderr[-2000:]}")
    return float(done.stdout)
