"""The server's clock, injected so that expiry and deadlines can be tested."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True)
class Clock:
    """Wall time from one source, which answers Unix seconds."""

    source: Callable[[], float] = time.time

    def seconds(self) -> int:
        """Whole Unix seconds."""
        return int(self.source())

    def minute(self) -> int:
        """Whole Unix minutes, the ledger's resolution."""
        return int(self.source()) // 60

    def utc(self) -> datetime:
        """The moment as an aware datetime."""
        return datetime.fromtimestamp(self.source(), UTC)
