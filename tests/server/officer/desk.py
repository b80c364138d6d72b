"""One officer's desk: a ledger, its admin port, a device of the tenant and the officer's folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fedaigc.files import private_folder, write_private
from fedaigc.signed_note import LogSigner
from fedaigc.signing import SigningKey
from fedaigc_server.ledger.ledger import Ledger
from fedaigc_server.officer.folder import OfficerFolder
from tests.server.officer.admin_server import TOKEN, AdminServer, serving
from tests.server.officer.device import NODE, Device


def write_folder(path: Path, device: Device, url: str, vkey: str) -> Path:
    private_folder(path)
    device.tenant.save(path / "tenant.key")
    write_private(path / "tag.key", device.tags)
    write_private(path / "officer.token", TOKEN.encode())
    write_private(path / "officer.json", json.dumps({"admin_url": url, "log_vkey": vkey}).encode())
    return path


@dataclass
class Desk:
    ledger: Ledger
    admin: AdminServer
    device: Device
    path: Path

    @property
    def folder(self) -> OfficerFolder:
        return OfficerFolder.open(self.path)

    def record(self, *texts: str) -> list[int]:
        """Let the device deliver these outputs; returns their indices."""
        first = self.ledger.size
        items = [self.device.output(text, first + step) for step, text in enumerate(texts)]
        return [index for _, index in self.ledger.append_outputs(NODE, items)]


@contextmanager
def officers_desk(folder: Path) -> Iterator[Desk]:
    device, signer = Device(), LogSigner("ledger.example/log", SigningKey.generate())
    with Ledger.open(folder / "ledger.db", signer) as ledger, serving(ledger) as admin:
        path = write_folder(folder / "officer", device, admin.url, signer.vkey())
        yield Desk(ledger, admin, device, path)
