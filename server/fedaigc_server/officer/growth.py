"""Remember the ledger as it was seen last, so that a ledger that was cut or rewritten is noticed."""

from __future__ import annotations

from typing import Protocol

from fedaigc.errors import StorageError, VerificationFailed
from fedaigc.files import PRIVATE_FILE, write_atomic
from fedaigc.ledger_tree import verify_growth
from fedaigc.signed_note import MAX_NOTE_BYTES, Checkpoint, open_checkpoint
from fedaigc_server.officer.folder import OfficerFolder

FILE_NAME = "last-checkpoint"


class ConsistencySource(Protocol):
    """Who answers with the hashes that link two sizes."""

    def consistency(self, first: int, second: int) -> list[bytes]:
        """The proof from `first` to `second` entries, not yet verified."""
        ...


def check_growth(
    folder: OfficerFolder, seen: Checkpoint | None, note: str, source: ConsistencySource
) -> Checkpoint:
    """Prove that the ledger of `note` extends the one `seen` before it was asked for, and remember it.

    Returns the checkpoint of `note`. Raises VerificationFailed when it does not extend `seen`, and then keeps
    what was remembered as evidence.
    """
    present = open_checkpoint(note, folder.log_vkey)
    if seen is not None:
        if seen.size > present.size:
            raise _rewritten(folder, f"it had {seen.size} entries when you last looked, now {present.size}")
        proof = source.consistency(seen.size, present.size) if 0 < seen.size < present.size else []
        try:
            verify_growth(seen.size, present.size, proof, seen.root, present.root)
        except VerificationFailed as error:
            raise _rewritten(
                folder, f"it does not extend the {seen.size} entries that you saw last"
            ) from error
    # Another command may have seen a later one meanwhile: that one is worth more.
    kept = last_seen(folder)
    if kept is None or kept.size < present.size:
        write_atomic(folder.path / FILE_NAME, note.encode(), mode=PRIVATE_FILE)
    return present


def last_seen(folder: OfficerFolder) -> Checkpoint | None:
    """The checkpoint that was remembered; read it before asking, so that the answer cannot be older.

    Raises VerificationFailed when the file is damaged or of another ledger.
    """
    path = folder.path / FILE_NAME
    try:
        with path.open("rb") as file:
            note = file.read(MAX_NOTE_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"Cannot read {path}", error.strerror or "", "check its owner and mode") from error
    try:
        return open_checkpoint(note, folder.log_vkey)
    except VerificationFailed as error:
        raise VerificationFailed(
            f"{path} was not signed by this ledger",
            "it is damaged, or log_vkey in officer.json was changed since",
            "find out why the ledger's key changed; delete the file only once you know",
        ) from error


def _rewritten(folder: OfficerFolder, why: str) -> VerificationFailed:
    return VerificationFailed(
        "The ledger was cut or rewritten",
        why,
        f"keep {folder.path / FILE_NAME} as evidence, trust no answer, and ask for the server's backups",
    )
