"""`fedaigc-edge feedback`: from a file to the device, without quoting anything in an error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fedaigc.errors import RequestInvalid
from fedaigc_edge.cli import device
from tests.edge.commands.running_daemon import running_daemon

JUDGED = [{"request_id": "chatcmpl-1", "rating": "up"}, {"request_id": "chatcmpl-2", "edited": "好的"}]


def _feedback(data: Path, text: str) -> Result:
    file = data / "judged.jsonl"
    file.write_text(text, encoding="utf-8")
    return CliRunner().invoke(device, ["feedback", str(file), "--data", str(data), "--json"])


@pytest.mark.parametrize("form", ["list", "lines"])
def test_every_judgement_reaches_the_device(tmp_path: Path, form: str) -> None:
    text = json.dumps(JUDGED) if form == "list" else "\n\n".join(map(json.dumps, JUDGED)) + "\n"
    with running_daemon(tmp_path, {"/v1/feedback": (200, {"id": "f-1"})}) as stand:
        result = _feedback(tmp_path, text)
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {"kept": 2}
    assert stand.asked == [("POST", "/v1/feedback", one) for one in JUDGED]


def test_a_refused_judgement_is_named_by_its_number(tmp_path: Path) -> None:
    error = RequestInvalid("No such answer", "the id is unknown", "copy the id").as_json()
    with running_daemon(tmp_path, {"/v1/feedback": (400, {"error": error})}):
        result = _feedback(tmp_path, json.dumps(JUDGED))
    assert result.exit_code == 2
    assert "Judgement 1 was refused: No such answer" in result.stderr


@pytest.mark.parametrize("text", ['{"a": 1}\nsecret words', '["secret words"]', "[secret words"])
def test_a_malformed_file_is_refused_without_quoting_it(tmp_path: Path, text: str) -> None:
    with running_daemon(tmp_path):
        result = _feedback(tmp_path, text)
    assert result.exit_code == 2
    assert "secret" not in result.stderr


def test_without_a_daemon_it_says_how_to_start_one(tmp_path: Path) -> None:
    result = _feedback(tmp_path, json.dumps(JUDGED))
    assert result.exit_code == 15
    assert "fedaigc-edge run" in result.stderr
