"""litellm, as its users install it, against a device."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fleet import Edge
from tests.tiny_model import HIDDEN

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

SCRIPT = Path(__file__).with_name("inside_litellm.py")


def test_litellm_completes_streams_embeds_and_understands_a_refusal(
    device: Edge, python_with: Callable[[str], Path]
) -> None:
    python = python_with("litellm==1.110.2")
    done = subprocess.run(
        [python, SCRIPT, device.url, "tiny"], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["whole"] == said["streamed"]
    assert 1 <= said["tokens"] <= 12
    assert said["vector"] == HIDDEN
    assert said["error"] in {"BadRequestError", "ContextWindowExceededError"}
