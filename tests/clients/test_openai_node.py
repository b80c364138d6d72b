"""The official client for node, as its users install it, against a device."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fleet import Edge
from tests.tiny_model import HIDDEN

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SCRIPT = Path(__file__).with_name("openai_node.mjs")


@pytest.mark.skipif(shutil.which("npm") is None, reason="node is not installed")
def test_the_node_client_completes_streams_forms_embeds_and_understands_a_refusal(
    device: Edge, node_with: Callable[[str, str], Path]
) -> None:
    # node looks for packages beside the script, not beside the caller.
    script = node_with("openai", "7.59.0") / SCRIPT.name
    shutil.copyfile(SCRIPT, script)
    done = subprocess.run(
        ["node", script, device.url, "tiny"], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout)
    assert said["whole"] == said["streamed"]
    assert said["tokens"] == said["streamed_tokens"] <= 12
    assert isinstance(said["formed"]["sure"], bool)
    assert said["vector"] == HIDDEN
    assert said["refused"] == {"kind": "BadRequestError", "status": 400, "param": "mirostat"}
