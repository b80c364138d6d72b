from __future__ import annotations

import json

from bench.run_manifest import run_manifest
from fedaigc_edge.model.store import ModelFolder


def test_it_says_what_was_measured_on_what(tiny_model: ModelFolder) -> None:
    manifest = run_manifest(tiny_model, 128, 1)
    wanted = {"model", "context", "kv_dtype", "threads", "versions", "cpu"}
    assert wanted <= manifest.keys() and all(manifest[name] for name in wanted)
    assert manifest["kv_bytes_per_token"] == 2 * 2 * 2 * 16 * 4
    assert "onnxruntime" in manifest["versions"]
    assert json.loads(json.dumps(manifest)) == manifest
