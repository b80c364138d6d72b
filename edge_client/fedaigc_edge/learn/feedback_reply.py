"""What the giver of feedback is told: its id, and whether a pair came of it or what is missing for one."""

from __future__ import annotations

from fedaigc.canonical import Json

LONE_THUMB = "thumb-"
"""Begins the id of a thumb that waits for its opposite."""
PAIRED_THUMB = "paired-"
"""Begins the id of a thumb on an answer that is part of a pair already."""

MISSING = "the opposite thumb on another answer to the same prompt"


def feedback_reply(identifier: str) -> dict[str, Json]:
    """The JSON that POST /v1/feedback answers for what was kept under `identifier`."""
    reply: dict[str, Json] = {"object": "fedaigc.feedback", "id": identifier}
    if identifier.startswith(LONE_THUMB):
        return {**reply, "pair": False, "missing": MISSING}
    return {**reply, "pair": True}
