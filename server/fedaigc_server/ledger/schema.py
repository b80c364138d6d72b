"""The ledger's tables.

`entry` and `tree_node` only ever grow. What can point from content to an entry stands apart, in `output_tag`
and `sealed_opening`: erasing someone's output deletes rows there and leaves every proof as it was.
"""

from __future__ import annotations

VERSION = 1
"""Kept in the file's `user_version`; a higher one was written by a newer release."""

APPLICATION_ID = 0x46444C47
"""`FDLG` in the file's header, so that another SQLite file is never taken for a ledger."""

PRAGMAS = (
    "PRAGMA busy_timeout = 5000",
    "PRAGMA journal_mode = WAL",
    # Acknowledged means on the disk, so each commit waits for it.
    "PRAGMA synchronous = FULL",
    # An erased row is overwritten, not only unlinked.
    "PRAGMA secure_delete = ON",
    # A page that no longer fits its own structure is an error, not a guess.
    "PRAGMA cell_size_check = ON",
)

TABLES = (
    "CREATE TABLE entry (idx INTEGER PRIMARY KEY, data BLOB NOT NULL)",
    """CREATE TABLE tree_node (
        level INTEGER NOT NULL, idx INTEGER NOT NULL, hash BLOB NOT NULL, PRIMARY KEY (level, idx)
    ) WITHOUT ROWID""",
    "CREATE TABLE checkpoint (size INTEGER PRIMARY KEY, note TEXT NOT NULL)",
    """CREATE TABLE output (
        node TEXT NOT NULL, seq INTEGER NOT NULL, idx INTEGER NOT NULL, PRIMARY KEY (node, seq)
    ) WITHOUT ROWID""",
    """CREATE TABLE output_tag (
        tag BLOB NOT NULL, idx INTEGER NOT NULL, month TEXT NOT NULL, PRIMARY KEY (tag, idx)
    ) WITHOUT ROWID""",
    "CREATE INDEX output_tag_by_entry ON output_tag (idx)",
    "CREATE TABLE sealed_opening (idx INTEGER PRIMARY KEY, opening BLOB NOT NULL)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {VERSION}",
)
