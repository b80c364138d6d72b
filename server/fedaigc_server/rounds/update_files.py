"""Received updates on disk, only until their round has been aggregated."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from fedaigc.errors import RoundFailed, StorageError
from fedaigc.files import private_folder, write_private
from fedaigc.identifiers import NodeId, RoundId


@dataclass(frozen=True)
class UpdateFiles:
    """One private folder a round, one file a node."""

    folder: Path

    def keep(self, round_id: RoundId, node: NodeId, data: bytes) -> None:
        """Store a node's signed update durably."""
        write_private(private_folder(self.folder / round_id) / node, data)

    def read(self, round_id: RoundId, node: NodeId) -> bytes:
        """The bytes that `keep` stored; raises RoundFailed when they are gone, StorageError otherwise."""
        try:
            return (self.folder / round_id / node).read_bytes()
        except FileNotFoundError:
            raise RoundFailed(
                f"The update of {node} is gone", "someone deleted its file", "run another round"
            ) from None
        except OSError as error:
            raise StorageError(
                f"The update of {node} cannot be read", error.strerror or "", "check the disk"
            ) from error

    def drop(self, round_id: RoundId) -> None:
        """Forget a round's updates: what was averaged is not kept singly."""
        shutil.rmtree(self.folder / round_id, ignore_errors=True)
