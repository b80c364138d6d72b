"""The device says from its first second why it cannot answer."""

from __future__ import annotations

import asyncio

import pytest

from fedaigc.errors import NotAuthorised, Unavailable
from fedaigc_edge.serve.readiness import Readiness
from tests.edge.serve.scripted import Parts


def test_it_is_loading_then_ready_then_closed_with_the_reason(parts: Parts) -> None:
    readiness = Readiness()
    with pytest.raises(Unavailable, match="loading"):
        readiness.pipeline()

    async def pipeline() -> object:
        made = parts.pipeline()
        readiness.open(made)
        return made

    assert asyncio.run(pipeline()) is readiness.pipeline()
    assert not readiness.gate_problem
    (parts.folder / "gate.yaml").write_text("")
    parts.gate.reload()
    assert readiness.gate_problem
    readiness.close(NotAuthorised("This device was revoked"))
    with pytest.raises(NotAuthorised, match="revoked"):
        readiness.pipeline()
