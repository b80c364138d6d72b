"""`fedaigc-edge feedback`: from a file to the device, without quoting anything in an error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fedaigc.errors import RequestInvalid, StorageError
from fedaigc.preference import Turn
from fedaigc_edge.cli import device
from fedaigc_edge.learn.feedback_reply import MISSING, feedback_reply
from fedaigc_edge.learn.feedback_store import FeedbackStore
from fedaigc_edge.serve.openai_errors import error_answer
from tests.edge.commands.running_daemon import running_daemon
from tests.edge.enrolled import enrolled

JUDGED = [{"request_id": "chatcmpl-1", "rating": "up"}, {"request_id": "chatcmpl-2", "edited": "好的"}]


def _feedback(data: Path, text: str, *arguments: str) -> Result:
    file = data / "judged.jsonl"
    file.write_text(text, encoding="utf-8")
    return CliRunner().invoke(device, ["feedback", str(file), "--data", str(data), *arguments])


@pytest.mark.parametrize("form", ["list", "lines"])
def test_every_judgement_reaches_the_device(tmp_path: Path, form: str) -> None:
    text = json.dumps(JUDGED) if form == "list" else "\n\n".join(map(json.dumps, JUDGED)) + "\n"
    with running_daemon(tmp_path, {"/v1/feedback": (200, {"id": "f-1"})}) as stand:
        result = _feedback(tmp_path, text, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {"kept": 2, "not_yet_pairs": 0}
    assert stand.asked == [("POST", "/v1/feedback", one) for one in JUDGED]


def test_a_refused_judgement_is_named_by_its_number(tmp_path: Path) -> None:
    error = RequestInvalid("No such answer", "the id is unknown", "copy the id").as_json()
    with running_daemon(tmp_path, {"/v1/feedback": (400, {"error": error})}):
        result = _feedback(tmp_path, json.dumps(JUDGED))
    assert result.exit_code == 2
    assert "Judgement 1 was refused: No such answer" in result.stderr


def test_the_devices_own_reason_is_shown(tmp_path: Path) -> None:
    refusal = error_answer(
        RequestInvalid("Feedback field 'rating' is wrong", "it must be up or down", "mend it")
    )
    with running_daemon(tmp_path, {"/v1/feedback": (400, refusal.body)}):
        result = _feedback(tmp_path, json.dumps(JUDGED))
        as_json = _feedback(tmp_path, json.dumps(JUDGED), "--json")
    assert result.stderr == (
        "Error: Judgement 1 was refused: Feedback field 'rating' is wrong. Why: it must be up or down. "
        "Next: mend it.\n"
    )
    assert json.loads(as_json.stderr)["error"]["why"] == "it must be up or down"


def test_a_full_store_keeps_its_own_exit_code(tmp_path: Path) -> None:
    refusal = error_answer(StorageError("The feedback store is full", "it holds 4096 pairs", "wait"))
    with running_daemon(tmp_path, {"/v1/feedback": (500, refusal.body)}):
        result = _feedback(tmp_path, json.dumps(JUDGED))
    assert result.exit_code == 3
    assert "it holds 4096 pairs" in result.stderr


def test_lone_thumbs_are_counted_with_what_they_miss(tmp_path: Path) -> None:
    with running_daemon(tmp_path, {"/v1/feedback": (200, feedback_reply("thumb-1"))}):
        result = _feedback(tmp_path, json.dumps(JUDGED))
        as_json = _feedback(tmp_path, json.dumps(JUDGED), "--json")
    assert "2 of them cannot be learned from yet" in result.stdout
    assert MISSING in result.stdout
    assert json.loads(as_json.stdout) == {"kept": 2, "not_yet_pairs": 2, "missing": MISSING}


def test_thumbs_that_a_later_one_of_the_file_completes_are_not_counted(tmp_path: Path) -> None:
    store = FeedbackStore(tmp_path / "learn.db")
    for request, text in (("one", "first"), ("two", "second")):
        store.remember_answer(request, [Turn("user", "why?")], text, bytes(32))
    judged = [{"request_id": "one", "rating": "up"}, {"request_id": "two", "rating": "down"}]
    with running_daemon(tmp_path, {"/v1/feedback": lambda body: feedback_reply(store.add(body))}):
        result = _feedback(tmp_path, json.dumps(judged), "--json")
    assert json.loads(result.stdout) == {"kept": 2, "not_yet_pairs": 0}


@pytest.mark.parametrize("text", ['{"a": 1}\nsecret words', '["secret words"]', "[secret words"])
def test_a_malformed_file_is_refused_without_quoting_it(tmp_path: Path, text: str) -> None:
    with running_daemon(tmp_path):
        result = _feedback(tmp_path, text)
    assert result.exit_code == 2
    assert "secret" not in result.stderr


def test_without_a_daemon_it_says_how_to_start_one(tmp_path: Path) -> None:
    enrolled(tmp_path)
    result = _feedback(tmp_path, json.dumps(JUDGED))
    assert result.exit_code == 15
    assert "fedaigc-edge run" in result.stderr
