"""Values that many tests of the device need: a token, an enrolment, the server's answer to one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from fedaigc.identifiers import NodeId
from fedaigc.join_token import JoinToken, new_secret
from fedaigc.sealing import SealingKey, SealingPublicKey
from fedaigc.signing import SigningKey, b64
from fedaigc_edge.enrolment import Enrolment

NODE = NodeId("n-0123456789abcdef")
MONTH_KEY = bytes(range(32))


def token_for(address: str, ca_sha256: str) -> JoinToken:
    """A valid token for a server."""
    return JoinToken(address, ca_sha256, new_secret(), int(time.time()) + 3600, "eu-west")


def enrol_answer(sealing_key: str, months: tuple[str, ...] = ("2026-12",)) -> dict[str, Any]:
    """What a server answers to POST /v1/enrol."""
    sealed = b64(SealingPublicKey.from_text(sealing_key).seal("tag-key", MONTH_KEY))
    return {
        "node": NODE,
        "log_vkey": "log.example+12345678+AAAA",
        "release_key": SigningKey.generate().public.text(),
        "tenant_key": SealingKey.generate().public.text(),
        "tag_keys": dict.fromkeys(months, sealed),
        "poll_s": 15,
    }


def enrolled(data: Path, address: str = "127.0.0.1:9", token: str = "t1") -> Enrolment:  # noqa: S107
    """Write an enrolment into `data` and return it."""
    answer = enrol_answer(SealingKey.generate().public.text())
    enrolment = Enrolment.from_answer(answer, address, "desk", "eu-west", token)
    enrolment.save(data)
    return enrolment
