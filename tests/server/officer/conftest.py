from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.officer.desk import Desk, officers_desk


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with officers_desk(tmp_path) as opened:
        yield opened
