"""Read gauges from a device's /metrics."""

from __future__ import annotations

import httpx


def gauges(port: int, prefix: str) -> dict[str, float]:
    """Every sample without labels whose name starts with `prefix`: name -> value."""
    text = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=30).text
    samples = (line.rsplit(" ", 1) for line in text.splitlines() if line.startswith(prefix))
    return {name: float(value) for name, value in samples if "{" not in name}
