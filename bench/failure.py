"""The one way a benchmark ends without figures."""

from __future__ import annotations


class BenchFailed(Exception):
    """Something cannot be measured here; the message says what, and what would help."""
