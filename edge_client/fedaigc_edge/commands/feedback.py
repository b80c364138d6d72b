"""`fedaigc-edge feedback`: give the running device judged answers from a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedaigc.errors import RequestInvalid, StorageError
from fedaigc_edge.commands.options import data_options, settings_of

if TYPE_CHECKING:
    import httpx

MAX_FILE_BYTES = 16 << 20
WAIT_S = 30.0


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@data_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def feedback(file: Path, data: Path | None, config: Path | None, as_json: bool) -> None:
    """Post each JSON object of FILE (one a line, or one list) to the device's /v1/feedback.

    Nothing leaves the device: pairs stay in its folder and are used for its own training. A thumb alone is
    no pair: it waits for the opposite one on another answer to the same prompt.

    \b
    Example:
      echo '{"request_id": "chatcmpl-...", "edited": "a better answer"}' > judged.jsonl
      fedaigc-edge feedback judged.jsonl

    \b
    Exit codes: 0 all kept, 2 a judgement is malformed, 3 the file cannot be read or the store is full
    (those before it are kept), 15 not running.
    """
    folder = settings_of(config, data=data).data
    judgements = read_judgements(file)
    waiting = _give(folder, judgements)
    if as_json:
        told = {"kept": len(judgements), "not_yet_pairs": len(waiting)}
        click.echo(json.dumps(told | ({"missing": waiting[0]} if waiting else {})))
        return
    click.echo(f"{len(judgements)} judgements kept")
    if waiting:
        click.echo(f"{len(waiting)} of them cannot be learned from yet; missing for each: {waiting[0]}")


def _give(folder: Path, judgements: list[dict[str, Any]]) -> list[str]:
    """Post them all; what is missing, for each that is no pair at the end."""
    import httpx

    from fedaigc_edge.commands.daemon_call import api_url, not_running

    try:
        with httpx.Client(base_url=api_url(folder), timeout=WAIT_S, trust_env=False) as http:
            told = [_post(http, number, judged) for number, judged in enumerate(judgements, start=1)]
            # A later thumb may have made a pair of an earlier one: telling a thumb twice changes nothing.
            lone = [number for number, answer in enumerate(told) if not answer.get("pair", True)]
            again = [_post(http, number + 1, judgements[number]) for number in lone]
    except httpx.HTTPError as error:
        raise not_running(folder) from error
    return [str(answer.get("missing", "")) for answer in again if not answer.get("pair", True)]


def _post(http: httpx.Client, number: int, judgement: dict[str, Any]) -> dict[str, Any]:
    from fedaigc_edge.federation.error_answer import error_from_answer

    answer = http.post("/v1/feedback", json=judgement)
    if answer.status_code >= 400:
        error = error_from_answer(answer.status_code, answer.content, "POST /v1/feedback")
        told = f"Judgement {number} was refused: {error.what}"
        raise type(error)(told, error.why, error.do_next) from error
    found: dict[str, Any] = answer.json()
    return found


def read_judgements(file: Path) -> list[dict[str, Any]]:
    """The objects of a JSON list or of JSON lines; raises RequestInvalid naming the line only."""
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise RequestInvalid(f"{file} is too large", f"the limit is {MAX_FILE_BYTES} bytes", "split it")
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"Cannot read {file}", type(error).__name__, "give a UTF-8 file") from error
    if text.lstrip().startswith("["):
        return [_object(item, number) for number, item in enumerate(_parsed(text, 1), start=1)]
    lines = [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    return [_object(_parsed(line, number), number) for number, line in lines]


def _parsed(text: str, line: int) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise RequestInvalid(f"Line {line} is not valid JSON", "", "write one JSON object a line") from None


def _object(value: Any, number: int) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RequestInvalid(f"Judgement {number} is not a JSON object", "", "write one JSON object a line")
    return value
