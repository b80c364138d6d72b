"""llama.cpp's Python package, built once, and the two models that its server is measured with."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench.cached_venv import cached_venv
from bench.failure import BenchFailed
from fedaigc.fingerprint import blob_digest

REQUIREMENTS = ("llama-cpp-python[server]==0.3.36",)
"""Compiled from its source for this machine's processor: needs a C++ compiler."""
SCRIPT_SECONDS = 1800.0
_SCRIPT = Path(__file__).with_name("inside_llama.py")


@dataclass(frozen=True)
class Llama:
    """llama-cpp-python in a virtual environment of its own, and where its requantised models are kept."""

    python: Path
    models: Path

    @classmethod
    def ready(cls, bench: Path) -> Llama:
        """Build and install it below `bench` when it is not there yet. Raises BenchFailed."""
        try:
            python = cached_venv(bench / "llama", REQUIREMENTS)
        except BenchFailed as error:
            raise BenchFailed(
                f"llama-cpp-python cannot be had here, so there is nothing to compare with.\n{error}"
            ) from error
        (bench / "quantised").mkdir(exist_ok=True)
        return cls(python, bench / "quantised")

    def q40(self, source: Path) -> Path:
        """The GGUF file `source` requantised to Q4_0; made once for each content of `source`."""
        target = self.models / f"{blob_digest(source.read_bytes())[:16]}.Q4_0.gguf"
        if not target.exists():
            temporary = target.with_suffix(".tmp")
            self.run("quantise", source, temporary)
            temporary.replace(target)
        return target

    def run(self, *arguments: object) -> str:
        """What `inside_llama.py` prints. Raises BenchFailed."""
        words = [str(self.python), str(_SCRIPT), *map(str, arguments)]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=SCRIPT_SECONDS)
        if done.returncode != 0:
            raise BenchFailed(f"{' '.join(words)} gave {done.returncode}:\n{done.stderr[-2000:]}")
        return done.stdout


def shipped_gguf(model_root: Path) -> Path:
    """The GGUF file that the exported model was made from. Raises BenchFailed when there is none."""
    found = sorted((model_root / "source").glob("*.gguf"))
    if not found:
        raise BenchFailed(
            f"{model_root} was not made from a GGUF file, so llama.cpp cannot serve the same model"
        )
    return found[0]
