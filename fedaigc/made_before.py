"""Tell a first start from a database that went missing, was emptied, or is an old copy put back.

Beside each database stands a marker with a high-water mark. The order is always the same:

    commit in the database  ->  raise the mark  ->  act on it, or tell anyone

* Killed between the first two, the database is ahead: nobody acted on what was committed, and the next start
  raises the mark. So a crash is healed, and stops no start.
* The mark is never ahead in any honest history. A database below its mark has forgotten something that was
  acted on or told, and is refused.

Whoever puts the marker back together with the old database is not found out here, but by the other side: by
the ledger's check of numbers, and by the server's own sum of what each node has spent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from fedaigc.canonical import Json
from fedaigc.errors import StorageError
from fedaigc.high_water import Mark, raise_mark, read_mark

MARKER = ".made-"
"""How a marker's name begins; deleting one lets a new or older database begin."""

MAX_REASON = 200


class Queries(Protocol):
    """An open connection to the database."""

    def execute(self, sql: str, /) -> Iterable[Any]:
        """Run one statement; its rows."""


@dataclass(frozen=True)
class MadeBefore:
    """What is known of one database, apart from it.

    Args:
        database: the file.
        owner: who made it; another owner begins with a database of its own.
        loss: what an emptier database would mean, for the message.
        counted: what the height counts, in the plural.
        otherwise: what to do when no newer copy is left.
    """

    database: Path
    owner: str
    loss: str
    counted: str
    otherwise: str

    def reached(self) -> Mark | None:
        """The owner's mark; None when the owner never made the database here. Raises StorageError."""
        mark = read_mark(self._marker)
        return mark if mark is not None and mark.owner == self.owner else None

    def require_file(self) -> None:
        """Call it before anything opens the file: SQLite would make it anew, and delete a journal beside it.

        Raises StorageError when the owner made the database here before and it is gone or empty.
        """
        if self.reached() is None:
            return
        if not self.database.exists():
            raise self._refused("is missing", "it was made here before")
        if not self.database.stat().st_size:
            raise self._refused("was emptied", "it was made here before, and has no content now")

    def require_content(self, connection: Queries) -> None:
        """Call it before tables are made; raises StorageError when tables are gone or a page is damaged."""
        verdict = str(next(iter(connection.execute("PRAGMA quick_check(1)")))[0])
        if verdict != "ok":
            reason = f"SQLite says: {' '.join(verdict.split())[:MAX_REASON]}"
            raise self._refused("is damaged", reason)
        (tables,) = next(iter(connection.execute("SELECT count(*) FROM sqlite_schema WHERE type = 'table'")))
        if not tables and self.reached() is not None:
            raise self._refused("was emptied", "it was made here before, and has no tables now")

    def require_height(self, height: int) -> None:
        """Raise StorageError when the database shows less than was reached, `height` of what is counted."""
        mark = self.reached()
        if mark is not None and height < mark.height:
            raise self.older(f"it holds {height} {self.counted}, and there were {mark.height}")

    def remember(self, connection: Queries, height: int = 0, **facts: Json) -> None:
        """Call it once the database can be used; makes the marker when it is the first time.

        Raises StorageError.
        """
        if self.reached() is None:
            # From now on the main file itself holds the tables, not only its journal.
            list(connection.execute("PRAGMA wal_checkpoint(TRUNCATE)"))
        self.note(height, **facts)

    def note(self, height: int, **facts: Json) -> None:
        """Raise the mark, after the commit and before anyone acts on it; a lower one changes nothing.

        On the disk when it returns. Raises StorageError: then the caller must not act on what it committed.
        """
        raise_mark(self._marker, Mark(self.owner, height, facts))

    def note_unsynced(self, height: int) -> None:
        """The same without waiting for the disk: a power cut may take the mark back, kill -9 may not."""
        raise_mark(self._marker, Mark(self.owner, height), sync=False)

    def older(self, why: str) -> StorageError:
        """The error for a database that is not the one that was last in use here."""
        return self._refused(
            "is older than what was done with it",
            f"{why}; an old copy was put back, or its -wal file is gone",
        )

    def _refused(self, what: str, why: str) -> StorageError:
        return StorageError(
            f"{self.database} {what}",
            f"{why}: {self.loss}",
            f"put the newest copy back, with its -wal file if there is one; {self.otherwise}",
        )

    @property
    def _marker(self) -> Path:
        # Named so that a pattern which takes the database and its journals along does not take this.
        return self.database.with_name(f"{MARKER}{self.database.name}")
