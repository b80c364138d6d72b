"""How the device is, as one JSON object and as lines for a terminal."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fedaigc
from fedaigc.canonical import Json
from fedaigc.made_before import MARKER
from fedaigc_edge.enrolment import CA_FILE, ENROLMENT_FILE, Enrolment
from fedaigc_edge.federation.tag_keys import TAG_KEYS_FILE
from fedaigc_edge.former_node import FORMER_FOLDER, former_nodes
from fedaigc_edge.standing import STANDING_FILE, Standing, StandingRecord

EVIDENCE_FILE = "evidence.db"
LEARN_FILE = "learn.db"

DEVICE_FILES = (
    "keys",
    ENROLMENT_FILE,
    CA_FILE,
    TAG_KEYS_FILE,
    STANDING_FILE,
    f"{EVIDENCE_FILE}*",
    f"{LEARN_FILE}*",
    f"{MARKER}*",
    "learn",
    FORMER_FOLDER,
    "policy",
    "flower",
    "run",
    "logs",
)
"""All that `leave --erase` deletes in the data folder, as patterns."""


def identity_part(enrolment: Enrolment, standing: Standing) -> dict[str, Json]:
    """Who the device is and whether it may generate."""
    return {
        "version": fedaigc.__version__,
        "node": enrolment.node,
        "name": enrolment.name,
        "region": enrolment.region,
        "server": enrolment.address,
        "standing": standing.state.value,
        "standing_since": standing.since,
        "standing_reason": standing.reason,
        "do_next": standing.do_next,
    }


def resting_status(data: Path) -> dict[str, Json]:
    """The status of a device whose daemon does not run; raises IdentityError when it never joined."""
    part = identity_part(Enrolment.load(data), StandingRecord(data).current)
    return part | {"running": False, "outbox": undelivered(data), "outbox_former": undelivered_former(data)}


def undelivered(data: Path) -> int:
    """How many sealed answers in the evidence database wait for a receipt; 0 when it cannot be told."""
    path = data / EVIDENCE_FILE
    if not path.exists():
        return 0
    with (
        contextlib.suppress(sqlite3.Error),
        contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5)) as database,
    ):
        return int(database.execute("SELECT count(*) FROM outbox").fetchone()[0])
    return 0


def undelivered_former(data: Path) -> int:
    """How many sealed answers of the nodes that this folder was before still wait for a receipt."""
    return sum(undelivered(node) for node in former_nodes(data))


def status_lines(found: Mapping[str, Any]) -> list[str]:
    """The status for a terminal, one fact a line."""
    lines = [
        f"node       {found['node']} ({found['name']}, region {found['region']})",
        f"server     {found['server']}{_contact(found)}",
        f"standing   {_standing(found)}",
    ]
    if not found.get("running"):
        return [
            *lines,
            f"daemon     not running; {found.get('outbox', 0)} fingerprints undelivered{_former(found)}",
        ]
    supernode = found["supernode"]
    return [
        *lines,
        f"api        {found['api']}{'' if found['ready'] else ' (not ready: ' + found['not_ready'] + ')'}",
        f"model      {found['model']}",
        f"policy     {found['policy']}{_trouble(found['policy_problem'])}",
        f"gate       {found['gate_problem'] or _gate(found.get('gate_version'))}",
        f"evidence   {found['outbox']} waiting, {found['receipts']} receipts kept"
        f"{_former(found)}{_trouble(found['delivery_problem'])}",
        f"learning   {found['pairs_new']} new pairs, epsilon left {found['epsilon_left']}",
        f"supernode  {supernode['state']}{': ' + supernode['message'] if supernode['message'] else ''}",
    ]


def _gate(version: str | None) -> str:
    return f"rules {version[:16]} in force" if version else "no rules: every request passes (set --gate FILE)"


def _former(found: Mapping[str, Any]) -> str:
    count = found.get("outbox_former", 0)
    return f"; {count} undelivered of this folder's former nodes" if count else ""


def _trouble(problem: str) -> str:
    return f"; {problem}" if problem else ""


def _contact(found: Mapping[str, Any]) -> str:
    if not found.get("running"):
        return ""
    if not found["reachable"]:
        return f" (not reachable: {found['problem']})" if found["problem"] else " (not asked yet)"
    return f" (reachable, but: {found['problem']})" if found["problem"] else " (reachable)"


def _standing(found: Mapping[str, Any]) -> str:
    return "; ".join(str(found[part]) for part in ("standing", "standing_reason", "do_next") if found[part])
