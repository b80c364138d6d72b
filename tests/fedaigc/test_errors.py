from __future__ import annotations

import inspect
import json

import pytest

from fedaigc import errors


def test_every_error_says_what_happened_why_and_what_to_do_next() -> None:
    error = errors.StorageError("Cannot write x", "the disk is full", "free some space")
    assert str(error) == "Cannot write x. Why: the disk is full. Next: free some space."


def test_missing_parts_leave_no_empty_sentence() -> None:
    assert str(errors.FedaigcError("It broke.")) == "It broke."


def test_the_tree_drawn_in_the_module_is_the_tree_that_exists() -> None:
    drawing = inspect.getdoc(errors) or ""
    for name, kind in inspect.getmembers(errors, inspect.isclass):
        if issubclass(kind, errors.FedaigcError):
            assert name in drawing
            assert kind.exit_code != 0


def test_json_form_holds_code_and_sentences_only() -> None:
    error = errors.RequestInvalid("Bad", "because", "mend it", field="stop")
    assert error.as_json() == {
        "code": "invalid_request",
        "what": "Bad",
        "why": "because",
        "do_next": "mend it",
    }


def test_a_command_tells_it_as_text_or_as_one_json_line() -> None:
    error = errors.StorageError("Cannot write", "the disk is full", "free some space")
    assert error.told(as_json=False) == f"Error: {error}"
    assert json.loads(error.told(as_json=True)) == {"error": error.as_json()}


@pytest.mark.parametrize(
    "parts", [("It broke", "", ""), ("It broke", "a: b. c", "mend"), ("It broke", "", "x")]
)
def test_a_told_line_gives_its_parts_back(parts: tuple[str, str, str]) -> None:
    assert errors.parts_of(str(errors.FedaigcError(*parts))) == parts


def test_a_line_that_nobody_told_is_what_happened() -> None:
    assert errors.parts_of("node_lost") == ("node_lost", "", "")
