"""The house rules that a machine can check."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.house.source_tree import ROOT, SourceFile, python_files, source_files

MAX_LINES = 400
MAX_FUNCTION_LINES = 60
VAGUE_NAMES = ("utils", "helpers", "manager", "common", "misc")
UNTESTED_BY_NAME = {"__init__.py", "__main__.py"}
FILES = source_files()


@pytest.mark.parametrize("path", python_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_is_longer_than_the_limit(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_LINES


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_function_fits_a_screen(file: SourceFile) -> None:
    for node in ast.walk(ast.parse(file.path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= MAX_FUNCTION_LINES, f"{file.name}: {node.name} has {length} lines"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_names_say_what_a_file_is(file: SourceFile) -> None:
    assert not any(vague in file.path.stem.split("_") for vague in VAGUE_NAMES)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_nothing_is_pickled_and_no_input_is_checked_by_assert(file: SourceFile) -> None:
    tree = ast.parse(file.path.read_text(encoding="utf-8"))
    assert not any(isinstance(node, ast.Assert) for node in ast.walk(tree))
    assert not {"pickle", "marshal", "shelve", "dill"} & {module.split(".")[0] for module in file.imports()}


def test_at_least_nineteen_files_in_twenty_have_their_mirrored_test() -> None:
    wanted = [file for file in FILES if file.path.name not in UNTESTED_BY_NAME]
    missing = [file.name for file in wanted if not file.mirrored_test().exists()]
    assert len(missing) <= len(wanted) * 0.05, f"no test file of the same name for: {missing}"


def test_only_errors_of_our_tree_are_raised() -> None:
    raw = {"ValueError", "RuntimeError", "Exception", "KeyError", "TypeError", "OSError"}
    for file in FILES:
        if file.path.stem.endswith("settings"):
            continue  # a settings class says ValueError to `load_settings`, which names file and key
        lines = file.path.read_text(encoding="utf-8").splitlines()
        for node in ast.walk(ast.parse("\n".join(lines))):
            if _raised_name(node) in raw:
                # A callback of a parser may only speak the parser's error type, and says who catches it.
                line = lines[getattr(node, "lineno", 1) - 1]
                assert "# caught by" in line, f"{file.name}: {line.strip()}"


def _raised_name(node: ast.AST) -> str:
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name):
        return node.exc.func.id
    return ""
