"""Play the demo: `python -m tests.demo --work .demo --models .demo/models`."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

from rich.console import Console

from tests.daemons import StoryFailed
from tests.demo.story import Story

ORDER = (
    "generated", "fingerprinted", "ledger_size", "receipts_verified", "policy_before", "policy_after",
    "edges", "epsilon_spent_max", "adapter_changed", "hot_swap_ms", "officer_hit", "officer_miss",
    "plaintext_bytes_at_server", "seconds",
)  # fmt: skip


def main() -> int:
    """Play the story in a fresh folder; the last line printed is one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--work", type=Path, required=True, help="folder for the demo's data; its run/ is emptied"
    )
    parser.add_argument("--models", type=Path, required=True, help="where the exported model is")
    arguments = parser.parse_args()
    run = arguments.work.resolve() / "run"
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir(parents=True)
    console = Console(stderr=True, highlight=False)
    try:
        results = Story(run, arguments.models.resolve(), console).tell()
    except StoryFailed as error:
        console.print(f"[red]The demo stopped:[/] {error}", markup=True)
        return 1
    except KeyboardInterrupt:
        console.print("Interrupted; every process was stopped.")
        return 130
    print(json.dumps({name: results[name] for name in ORDER}), flush=True)
    return 0 if _good(results) else 1


def _good(results: dict[str, object]) -> bool:
    return (
        results["generated"] == results["fingerprinted"] == results["receipts_verified"]
        and results["policy_after"] == 1
        and results["adapter_changed"] is True
        and results["officer_hit"] is True
        and results["officer_miss"] is True
        and results["plaintext_bytes_at_server"] == 0
    )


if __name__ == "__main__":
    sys.exit(main())
