"""One thread writes the database; works that wait at the same moment share one transaction and one fsync."""

from __future__ import annotations

import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from fedaigc.errors import FedaigcError, StorageError
from fedaigc.made_before import MadeBefore
from fedaigc_edge.evidence.database import open_database, storage_error

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

MAX_GROUP = 64
"""Works in one transaction; the first of them waits for the last."""


class _Job:
    def __init__(self, work: Work[Any]) -> None:
        self.work = work
        self.future: Future[Any] = Future()
        self.result: Any = None
        self.failure: Exception | None = None

    def attempt(self, connection: sqlite3.Connection, path: Path) -> None:
        """Do the work inside its own savepoint: what one work gets wrong does not undo its neighbours."""
        connection.execute("SAVEPOINT work")
        try:
            self.result = self.work(connection)
        except (FedaigcError, sqlite3.IntegrityError, sqlite3.ProgrammingError) as error:
            connection.execute("ROLLBACK TO work")
            self.failure = error if isinstance(error, FedaigcError) else storage_error(path, error)
        connection.execute("RELEASE work")

    def settle(self, failure: Exception | None) -> None:
        """Tell whoever waits; only called once the transaction's fate is known."""
        failure = failure or self.failure
        if failure is not None:
            self.future.set_exception(failure)
        else:
            self.future.set_result(self.result)


class GroupCommit:
    """The only writer of one database. Raises StorageError when the database cannot be opened.

    Args:
        path: the database file.
        made: what is known of it from before.
        committed: called after each commit, before anyone is told of it; if it raises, nobody is.
    """

    def __init__(
        self,
        path: Path,
        made: MadeBefore | None = None,
        committed: Callable[[sqlite3.Connection], None] = lambda connection: None,
    ) -> None:
        self._path = path
        self._committed = committed
        self._connection = open_database(path, made)
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="evidence-writer", daemon=True)
        self._thread.start()

    def submit(self, work: Work[T]) -> Future[T]:
        """Run `work` in a transaction; the future is done once that is on disk, or holds a FedaigcError.

        Raises StorageError after `close`.
        """
        job = _Job(work)
        with self._lock:
            if self._closed:
                raise StorageError(f"{self._path} is closed", "the device is stopping", "start it again")
            self._jobs.put(job)
        return job.future

    def close(self) -> None:
        """Finish what was submitted, then close the database; calling it again does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._jobs.put(None)
        self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        more = True
        while more:
            group, more = self._next_group()
            running = [job for job in group if job.future.set_running_or_notify_cancel()]
            if running:
                self._commit(running)

    def _next_group(self) -> tuple[list[_Job], bool]:
        group: list[_Job] = []
        job = self._jobs.get()
        with contextlib.suppress(queue.Empty):
            while job is not None:
                group.append(job)
                if len(group) == MAX_GROUP:
                    break
                job = self._jobs.get_nowait()
        return group, job is not None

    def _commit(self, group: list[_Job]) -> None:
        failure: Exception | None = None
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            for job in group:
                job.attempt(self._connection, self._path)
            self._connection.execute("COMMIT")
            self._committed(self._connection)
        except FedaigcError as error:
            failure = error
        except Exception as error:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            failure = storage_error(self._path, error)
        for job in group:
            job.settle(failure)
