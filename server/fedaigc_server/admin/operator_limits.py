"""What the operator may ask for: enforced by the admin port, told by the command line before it asks."""

from __future__ import annotations

MAX_TOKEN_HOURS = 24.0 * 30
MAX_DEADLINE_S = 24 * 3600
MAX_NODES = 100_000
MAX_REGION_CHARS = 64
MAX_REASON_CHARS = 300
