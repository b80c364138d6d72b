from __future__ import annotations

from pathlib import Path

import pytest

from fedaigc.errors import RoundFailed
from fedaigc.identifiers import NodeId, RoundId
from fedaigc_server.rounds.update_files import UpdateFiles

ROUND, NODE = RoundId("r-0123456789abcdef"), NodeId("n-0123456789abcdef")


def test_an_update_is_kept_private_and_then_forgotten(tmp_path: Path) -> None:
    files = UpdateFiles(tmp_path)
    files.keep(ROUND, NODE, b"bytes")
    assert files.read(ROUND, NODE) == b"bytes"
    assert (tmp_path / ROUND / NODE).stat().st_mode & 0o777 == 0o600
    files.drop(ROUND)
    files.drop(ROUND)
    with pytest.raises(RoundFailed, match="gone"):
        files.read(ROUND, NODE)
