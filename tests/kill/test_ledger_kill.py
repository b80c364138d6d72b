"""kill -9 the writer at random moments: whatever it acknowledged is there, proven, and signed only once."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedaigc.ledger_check import check_receipt
from fedaigc.ledger_tree import verify_growth
from fedaigc.signed_note import LogSigner, open_checkpoint
from fedaigc.signing import SigningKey
from fedaigc_server.ledger.ledger import Ledger
from tests.server.ledger.outputs import output_entry

KILLS = 20

# Appends outputs for ever, three at a time with the last of the batch before delivered again, and prints what
# it was told is durable.
WRITER = """
import sys
from pathlib import Path
from fedaigc.signed_note import LogSigner
from fedaigc.signing import SigningKey
from fedaigc_server.ledger.ledger import Ledger
from tests.server.ledger.outputs import NODE, item

folder, seq = Path(sys.argv[1]), int(sys.argv[2])
ledger = Ledger.open(folder / "ledger.db", LogSigner("kill.example", SigningKey.load(folder / "log.key")))
while True:
    for number, index in ledger.append_outputs(NODE, [item(seq + step) for step in range(3)]):
        print("entry", number, index, flush=True)
    print("note", ledger.checkpoint().encode().hex(), flush=True)
    seq += 2
"""


def write_until_killed(folder: Path, seq: int, seconds: float) -> list[list[str]]:
    """The lines of a writer that was killed after `seconds` of writing; a line cut by the kill is dropped."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), str(seq)],
        stdout=subprocess.PIPE,
        bufsize=0,  # what readline took ahead into a buffer, communicate would not see
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert writer.stdout is not None
    first = writer.stdout.readline()
    time.sleep(seconds)
    writer.kill()
    rest, _ = writer.communicate(timeout=30)
    return [
        line.decode().split() for line in (first + rest).splitlines(keepends=True) if line.endswith(b"\n")
    ]


@pytest.mark.slow
def test_twenty_kills_lose_no_acknowledged_entry_and_sign_no_size_twice(tmp_path: Path) -> None:
    signer = LogSigner("kill.example", SigningKey.load_or_create(tmp_path / "log.key"))
    chosen = random.Random(11)
    acknowledged: dict[int, int] = {}
    notes: dict[int, str] = {}
    for _ in range(KILLS):
        # The next writer begins with numbers that were delivered before, as a device does that got no answer.
        start = max(acknowledged, default=3) - 3
        for kind, *rest in write_until_killed(tmp_path, start, chosen.uniform(0.0, 0.15)):
            if kind == "entry":
                assert acknowledged.setdefault(int(rest[0]), int(rest[1])) == int(rest[1])
            else:
                note = bytes.fromhex(rest[0]).decode()
                assert notes.setdefault(open_checkpoint(note, signer.vkey()).size, note) == note
        with Ledger.open(tmp_path / "ledger.db", signer) as ledger:
            assert ledger.size > max(acknowledged.values())
    with Ledger.open(tmp_path / "ledger.db", signer) as ledger:
        numbers = sorted(acknowledged)
        assert len(numbers) > KILLS
        for seq, receipt in zip(numbers, ledger.receipts(acknowledged[seq] for seq in numbers), strict=True):
            checked = check_receipt(receipt, signer.vkey())
            assert checked.index == acknowledged[seq]
            assert checked.entry.to_bytes() == output_entry(seq)
        assert len(set(acknowledged.values())) == len(numbers) <= ledger.size
        last = open_checkpoint(ledger.checkpoint(), signer.vkey())
        for size, note in notes.items():
            earlier = open_checkpoint(note, signer.vkey())
            verify_growth(size, last.size, ledger.consistency(size, last.size), earlier.root, last.root)
