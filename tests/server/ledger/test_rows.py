from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from sqlite3 import Connection

import pytest

from fedaigc.errors import StorageError
from fedaigc.ledger_tree import leaf_hash, node_hash
from fedaigc_server.ledger import rows
from fedaigc_server.ledger.ledger_file import LedgerFile
from tests.server.ledger.outputs import NODE, item


@pytest.fixture
def db(path: Path) -> Iterator[Connection]:
    with LedgerFile(path).writing() as connection:
        yield connection


def test_every_complete_subtree_is_stored_once_at_its_level_and_index(db: Connection) -> None:
    assert list(rows.add_entries(db, [b"a", b"b", b"c"])) == [0, 1, 2]
    assert list(rows.add_entries(db, [b"d"])) == [3]
    read = rows.node_reader(db)
    left, right = node_hash(leaf_hash(b"a"), leaf_hash(b"b")), node_hash(leaf_hash(b"c"), leaf_hash(b"d"))
    assert (read(0, 3), read(1, 0), read(1, 1)) == (leaf_hash(b"d"), left, right)
    assert read(2, 0) == node_hash(left, right)
    assert db.execute("SELECT count(*) FROM tree_node").fetchone() == (7,)
    with pytest.raises(StorageError):
        read(3, 0)


def test_a_checkpoint_is_read_by_its_size_and_the_largest_is_the_last(db: Connection) -> None:
    assert rows.last_checkpoint(db) is None
    for size in (3, 20, 7):
        rows.add_checkpoint(db, size, f"note {size}")
    assert rows.read_checkpoint(db, 7) == "note 7"
    assert rows.read_checkpoint(db, 8) is None
    assert rows.last_checkpoint(db) == (20, "note 20")


def test_an_output_is_found_by_its_number_and_by_its_tags(db: Connection) -> None:
    mine = item(5)
    rows.add_entries(db, [mine.entry])
    rows.add_outputs(db, NODE, [(mine, 0)])
    assert rows.recorded_output(db, NODE, 5) == (0, mine.entry)
    assert rows.recorded_output(db, NODE, 6) is None
    assert rows.tagged_outputs(db, list(mine.tags), 10) == ([(0, "2026-12", b"sealed 5")], 1)
    assert rows.tagged_outputs(db, list(mine.tags), 0) == ([], 1)
