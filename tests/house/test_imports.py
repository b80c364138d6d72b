"""Data flows one way, and so do imports."""

from __future__ import annotations

import pytest

from tests.house.source_tree import SourceFile, source_files

FORBIDDEN = {
    "fedaigc": (
        "fedaigc_edge",
        "fedaigc_server",
        "flwr",
        "torch",
        "onnxruntime",
        "httpx",
        "starlette",
        "threading",
    ),
    "fedaigc_edge": ("fedaigc_server",),
    "fedaigc_server": ("fedaigc_edge", "torch", "onnxruntime", "onnxruntime_genai", "opacus", "peft"),
}
CONFINED = {
    "flwr": {
        "fedaigc_edge/federation/client_app.py",
        "fedaigc_server/federation/server_app.py",
        "fedaigc_server/federation/superlink_api.py",
    },
    "torch": {
        "fedaigc_edge/learn/torch_policy.py",
        "fedaigc_edge/learn/private_step.py",
        "fedaigc_edge/model/hf_folder.py",
    },
    "onnxruntime": {
        "fedaigc_edge/policy/adapter_export.py",
        "fedaigc_edge/model/graph_runs.py",
        "fedaigc_edge/engine/graph_session.py",
    },
    "onnxruntime_genai": set[str](),
}
FILES = source_files()


def _names(file: SourceFile) -> str:
    return file.name


@pytest.mark.parametrize("file", FILES, ids=_names)
def test_packages_import_only_in_the_allowed_direction(file: SourceFile) -> None:
    for module in file.imports():
        assert module.split(".")[0] not in FORBIDDEN[file.package], f"{file.name} imports {module}"


@pytest.mark.parametrize("runtime", sorted(CONFINED))
def test_each_heavy_runtime_is_imported_by_at_most_three_named_files(runtime: str) -> None:
    importers = {file.name for file in FILES if any(m.split(".")[0] == runtime for m in file.imports())}
    assert importers <= CONFINED[runtime]
    assert len(CONFINED[runtime]) <= 3


def test_the_offline_verifier_shares_no_code_with_the_writer() -> None:
    names = "ledger_tree canonical signing fingerprint signed_note receipt ledger_entry errors identifiers"
    (check,) = (file for file in FILES if file.name == "fedaigc/ledger_check.py")
    ours = {module.split(".")[1] for module in check.imports() if module.startswith("fedaigc.")}
    assert ours <= set(names.split())
