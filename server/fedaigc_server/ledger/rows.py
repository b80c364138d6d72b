"""The ledger's rows: what one transaction reads and writes, with no rule of its own."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from fedaigc.errors import RequestInvalid, StorageError
from fedaigc.ledger_tree import NodeReader, leaf_hash, new_nodes
from fedaigc_server.ledger.output_item import OutputItem


def entry_count(db: sqlite3.Connection) -> int:
    """How many entries there are: the size of the log."""
    return _after_last(db, "SELECT max(idx) FROM entry")


def leaf_count(db: sqlite3.Connection) -> int:
    """How many leaves the stored tree has; the same number, or someone was at the file."""
    return _after_last(db, "SELECT max(idx) FROM tree_node WHERE level = 0")


def read_entry(db: sqlite3.Connection, index: int) -> bytes:
    """The bytes of one entry; raises RequestInvalid when there is none."""
    count = entry_count(db)
    if not 0 <= index < count:
        raise RequestInvalid(
            f"There is no entry {index}", f"the ledger has {count} entries", "give a lower number", "index"
        )
    row = db.execute("SELECT data FROM entry WHERE idx = ?", (index,)).fetchone()
    if row is None:
        raise changed(f"entry {index} is missing")
    return bytes(row[0])


def node_reader(db: sqlite3.Connection) -> NodeReader:
    """The stored tree, as the proofs read it; raises StorageError when a hash is missing."""

    def read(level: int, index: int) -> bytes:
        row = db.execute("SELECT hash FROM tree_node WHERE level = ? AND idx = ?", (level, index)).fetchone()
        if row is None:
            raise changed(f"the hash of subtree ({level}, {index}) is missing")
        return bytes(row[0])

    return read


def add_entries(db: sqlite3.Connection, entries: Sequence[bytes]) -> range:
    """Write entries and every subtree that they complete; returns their indices."""
    size = entry_count(db)
    added = list(new_nodes(size, [leaf_hash(entry) for entry in entries], node_reader(db)))
    db.executemany("INSERT INTO entry (idx, data) VALUES (?, ?)", enumerate(entries, size))
    db.executemany("INSERT INTO tree_node (level, idx, hash) VALUES (?, ?, ?)", added)
    return range(size, size + len(entries))


def add_outputs(db: sqlite3.Connection, node: str, placed: Sequence[tuple[OutputItem, int]]) -> None:
    """Write what points to outputs: their number, tags and sealed opening, each beside its index."""
    numbers = [(node, item.seq, index) for item, index in placed]
    tags = [(tag, index, item.month) for item, index in placed for tag in set(item.tags)]
    openings = [(index, item.opening) for item, index in placed]
    db.executemany("INSERT INTO output (node, seq, idx) VALUES (?, ?, ?)", numbers)
    db.executemany("INSERT INTO output_tag (tag, idx, month) VALUES (?, ?, ?)", tags)
    db.executemany("INSERT INTO sealed_opening (idx, opening) VALUES (?, ?)", openings)


def recorded_output(db: sqlite3.Connection, node: str, seq: int) -> tuple[int, bytes] | None:
    """Index and entry of what a node delivered under `seq`, if it did."""
    row = db.execute("SELECT idx FROM output WHERE node = ? AND seq = ?", (node, seq)).fetchone()
    return None if row is None else (int(row[0]), read_entry(db, row[0]))


def tagged_outputs(
    db: sqlite3.Connection, tags: Sequence[bytes], limit: int
) -> tuple[list[tuple[int, str, bytes | None]], int]:
    """(index, month, sealed opening or None) of outputs with any of `tags`, in order; and how many exist."""
    # Only question marks are put into the text of the query.
    tagged = f"FROM output_tag WHERE tag IN ({', '.join('?' * len(tags))})"
    (total,) = db.execute(f"SELECT count(DISTINCT idx) {tagged}", tags).fetchone()
    found = db.execute(
        f"WITH found AS (SELECT idx, min(month) AS month {tagged} GROUP BY idx ORDER BY idx LIMIT ?)"  # noqa: S608
        " SELECT idx, month, opening FROM found LEFT JOIN sealed_opening USING (idx) ORDER BY idx",
        (*tags, limit),
    ).fetchall()
    return [(int(index), str(month), opening) for index, month, opening in found], int(total)


def read_checkpoint(db: sqlite3.Connection, size: int) -> str | None:
    """The note that was signed for `size`, if one was."""
    row = db.execute("SELECT note FROM checkpoint WHERE size = ?", (size,)).fetchone()
    return None if row is None else str(row[0])


def add_checkpoint(db: sqlite3.Connection, size: int, note: str) -> None:
    """Keep the only note that will ever be signed for `size`."""
    db.execute("INSERT INTO checkpoint (size, note) VALUES (?, ?)", (size, note))


def last_checkpoint(db: sqlite3.Connection) -> tuple[int, str] | None:
    """Size and note of the largest checkpoint."""
    row = db.execute("SELECT size, note FROM checkpoint ORDER BY size DESC LIMIT 1").fetchone()
    return None if row is None else (int(row[0]), str(row[1]))


def changed(why: str) -> StorageError:
    """The error for a stored ledger that is not what was written to it."""
    return StorageError(
        "The stored ledger was changed",
        why,
        "stop the server, keep the file as evidence, and restore a backup that is at least as long",
    )


def _after_last(db: sqlite3.Connection, query: str) -> int:
    (last,) = db.execute(query).fetchone()
    return 0 if last is None else int(last) + 1
