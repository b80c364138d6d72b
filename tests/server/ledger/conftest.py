"""A ledger in a fresh folder, and outputs as a device would deliver them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fedaigc.signed_note import LogSigner
from fedaigc.signing import SigningKey
from fedaigc_server.ledger.ledger import Ledger


@pytest.fixture(scope="session")
def signer() -> LogSigner:
    return LogSigner("ledger.example/log", SigningKey.generate())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def ledger(path: Path, signer: LogSigner) -> Iterator[Ledger]:
    with Ledger.open(path, signer) as opened:
        yield opened
