from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import precision
from bench.command import BenchOptions
from bench.precision import Amount, measure
from fedaigc_edge.model.export import ExportPlan
from fedaigc_edge.model.store import ModelFolder
from tests.tiny_model import TINY_NAME


@pytest.mark.slow
def test_every_precision_that_the_source_allows_is_measured(
    tiny_model: ModelFolder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(precision, "QUICK", Amount(8, 128, 2, 4))
    monkeypatch.setattr(precision, "ExportPlan", tiny_plan)
    found = measure(BenchOptions(tiny_model.root.parent, TINY_NAME, tmp_path, quick=True))
    assert set(found["precisions"]) == {"int8", "int4", "fp32"}
    reference = found["precisions"]["fp32"]
    assert reference["top1"] == 1.0 and reference["hidden_cosine"] == pytest.approx(1.0)
    assert found["precisions"]["int4"]["decode_vs_int4"] == 1.0
    assert found["pareto"] and set(found["pareto"]) <= set(found["precisions"])
    for one in found["precisions"].values():
        low, high = one["perplexity_95"]
        assert low <= one["perplexity"] <= high
    assert json.loads(json.dumps(found)) == found
    assert "perplexity" in capsys.readouterr().out


def tiny_plan(name: str) -> ExportPlan:
    return ExportPlan(name, lora_layers=2, rank=4, alpha=8.0)
