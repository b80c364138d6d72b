"""The `llm` command, as its users install it, against a device."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fleet import Edge

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def ask(device: Edge, python_with: Callable[[str], Path], tmp_path: Path) -> Callable[..., str]:
    program = python_with("llm==0.36").with_name("llm")
    models = [
        {"model_id": "edge", "model_name": "tiny", "api_base": f"{device.url}/v1", "supports_schema": True}
    ]
    # JSON is YAML.
    (tmp_path / "extra-openai-models.yaml").write_text(json.dumps(models), encoding="utf-8")
    environment = {**os.environ, "LLM_USER_PATH": str(tmp_path), "OPENAI_API_KEY": "local"}

    def run(*arguments: str) -> str:
        command = [str(program), "-m", "edge", "the quick brown fox", *arguments]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    return run


def test_llm_streams_what_it_gets_whole(ask: Callable[..., str]) -> None:
    options = ("-o", "temperature", "0", "-o", "max_tokens", "12")
    streamed, whole = ask(*options), ask(*options, "--no-stream")
    assert streamed == whole
    assert streamed.strip()


def test_llm_gets_what_its_schema_asks_for(ask: Callable[..., str]) -> None:
    schema = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}
    said = json.loads(ask("--schema", json.dumps({**schema, "additionalProperties": False}), "--no-stream"))
    assert isinstance(said["sure"], bool)
