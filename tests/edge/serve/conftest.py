"""One pipeline, and one running API, for a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from tests.edge.serve.scripted import Parts, RunningApi


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    made = Parts(tmp_path)
    yield made
    made.outbox.close()


@pytest.fixture
def api(parts: Parts) -> Iterator[RunningApi]:
    with RunningApi(parts) as running:
        yield running


@pytest.fixture
def caller(api: RunningApi) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{api.url}/v1", api_key="none", max_retries=0, timeout=10) as made:
        yield made
