"""Open everything that the server keeps on disk, in one place and in the order that recovery needs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fedaigc.files import private_folder
from fedaigc.made_before import MARKER, MadeBefore
from fedaigc.signed_note import LogSigner
from fedaigc_server import record_once, registry, token_store
from fedaigc_server.blobs import Blobs
from fedaigc_server.database import Database
from fedaigc_server.identity import ServerIdentity
from fedaigc_server.ledger.ledger import Ledger
from fedaigc_server.policy.versions import PolicyVersions
from fedaigc_server.record_once import RecordOnce
from fedaigc_server.registry import Registry
from fedaigc_server.rounds import round_store
from fedaigc_server.rounds.round_store import RoundStore
from fedaigc_server.rounds.update_files import UpdateFiles
from fedaigc_server.token_store import TokenStore

OWNER = "server"
DATABASE_FILE = "server.db"


@dataclass(frozen=True)
class Stores:
    """The open databases and folders of one data folder."""

    database: Database
    ledger: Ledger
    signer: LogSigner
    registry: Registry
    tokens: TokenStore
    rounds: RoundStore
    record: RecordOnce
    blobs: Blobs
    policies: PolicyVersions
    updates: UpdateFiles

    def close(self) -> None:
        """Let go of the files; nothing acknowledged depends on it."""
        self.ledger.close()
        self.policies.close()
        self.database.close()


def open_stores(data: Path, identity: ServerIdentity) -> Stores:
    """Open or make the stores, and finish what a crash left half-way between two of them.

    Raises StorageError for a file that is damaged or older than what was done with it, VerificationFailed for
    a ledger that is not the one we signed.
    """
    signer = LogSigner(log_name(identity), identity.log_key)
    path = data / DATABASE_FILE
    made = _made_before(path)
    ledger = Ledger.open(data / "ledger.db", signer)
    schemas = (registry.SCHEMA, token_store.SCHEMA, round_store.SCHEMA, record_once.SCHEMA)
    database = Database(path, *schemas, made=made)
    record = RecordOnce(database, ledger, made)
    record.finish()
    blobs = Blobs(private_folder(data / "blobs"))
    return Stores(
        database=database,
        ledger=ledger,
        signer=signer,
        registry=Registry(database),
        tokens=TokenStore(database),
        rounds=RoundStore(database),
        record=record,
        blobs=blobs,
        policies=PolicyVersions(path, blobs, identity.release_key),
        updates=UpdateFiles(private_folder(data / "updates")),
    )


def _made_before(path: Path) -> MadeBefore:
    return MadeBefore(
        path,
        OWNER,
        "devices, revocations, policies and spent epsilon would be forgotten",
        "recorded acts",
        f"if no newer one is left, delete {MARKER}{path.name}, and revoke again whom you had revoked",
    )


def log_name(identity: ServerIdentity) -> str:
    """The log's origin: fixed by its key, so that a new address or port does not make another log of it."""
    return f"fedaigc-log-{identity.log_key.public.raw[:8].hex()}"
