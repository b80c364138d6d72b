"""A node's folder that owes the ledger something, and a server that takes it or refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedaigc_edge import owed_delivery
from fedaigc_edge.evidence.outbox import Outbox
from fedaigc_edge.identity import Identity
from tests.edge.enrolled import enrolled
from tests.edge.evidence.small_ledger import Keys, SmallLedger, output


def owing(folder: Path, ledger: SmallLedger, count: int) -> None:
    """Enrol `folder`, and seal `count` answers there that nobody delivers."""
    Identity.load_or_create(folder / "keys")
    enrolment = replace(enrolled(folder), log_vkey=ledger.signer.vkey())
    enrolment.save(folder)
    outbox = Outbox(folder / "evidence.db", enrolment.node, enrolment.tenant_key)
    for number in range(count):
        outbox.seal(output(number)).result(10)
    outbox.close()


def play_server(monkeypatch: pytest.MonkeyPatch, ledger: SmallLedger) -> None:
    """Let `ledger` stand for the server that the enrolment names."""

    class Connection:
        def __init__(self, *given: Any) -> None:
            self.post = ledger.post

        async def close(self) -> None:
            """Nothing is open."""

    monkeypatch.setattr(owed_delivery, "ServerConnection", Connection)
    monkeypatch.setattr(owed_delivery, "TagKeys", lambda folder, sealing: Keys())
