"""Ask the running server through its admin port, with the operator's token from the data folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx

from fedaigc import errors
from fedaigc.errors import FedaigcError, Unavailable
from fedaigc.files import read_private

WAIT_S = 60.0
_KNOWN: dict[str, type[FedaigcError]] = {
    kind.code: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, FedaigcError)
}


def not_running(data: Path) -> Unavailable:
    """The error that says that no server serves this folder."""
    return Unavailable(
        "The server is not running",
        f"nothing answers for {data}",
        f"start it: fedaigc-server start --data {data}",
    )


def ask_admin(data: Path, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """One call; raises Unavailable when the server does not run, else the error that it answered."""
    try:
        url = str(json.loads((data / "run" / "admin.json").read_text(encoding="utf-8"))["url"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise not_running(data) from error
    token = read_private(data / "keys" / "operator.token").decode("ascii").strip()
    try:
        answer = httpx.request(
            method,
            url + path,
            json=body,
            headers={"authorization": f"Bearer {token}"},
            timeout=WAIT_S,
            trust_env=False,
        )
    except httpx.HTTPError as error:
        raise not_running(data) from error
    if answer.status_code != 200:
        raise _error(answer)
    found: dict[str, Any] = answer.json()
    return found


def _error(answer: httpx.Response) -> FedaigcError:
    try:
        record = answer.json()["error"]
        kind = _KNOWN.get(record["code"], FedaigcError)
        return kind(record["what"], record["why"], record["do_next"])
    except (ValueError, KeyError, TypeError):
        return Unavailable(
            "The admin port gave no usable answer", f"status {answer.status_code}", "see logs/server.log"
        )
