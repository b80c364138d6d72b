"""The month's tag keys, which only the tenant and its devices know; kept sealed on disk."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from fedaigc.canonical import Json, parse_record
from fedaigc.errors import FedaigcError, IdentityError, VerificationFailed
from fedaigc.files import read_private, write_private
from fedaigc.fingerprint import month_of
from fedaigc.sealing import SealingKey
from fedaigc.signing import unb64
from fedaigc_edge.federation.server_connection import ServerConnection

TAG_KEYS_FILE = "tag-keys.json"
TAG_KEY_BYTES = 32
PURPOSE = "tag-key"
MONTHS_AHEAD = 2
"""A device that is offline for two months can still tag what it makes."""
FRESH_EVERY_S = 6 * 3600.0
RETRY_S = 60.0

log = logging.getLogger("fedaigc.edge.tag_keys")


class TagKeys:
    """Month to 32-byte key. The file holds them as they came: HPKE-sealed to this device."""

    def __init__(self, data: Path, sealing: SealingKey, now: Callable[[], datetime] | None = None) -> None:
        self._path = data / TAG_KEYS_FILE
        self._sealing = sealing
        self._now = now or (lambda: datetime.now(UTC))
        self._keys: dict[str, bytes] = {}
        if self._path.exists():
            self._keys = {month: self._opened(text) for month, text in self._read().items()}

    def key(self, month: str) -> bytes:
        """The 32-byte key of `YYYY-MM`; raises IdentityError when the device does not have it."""
        try:
            return self._keys[month]
        except KeyError:
            raise IdentityError(
                f"The tag key of {month} is not on this device",
                "it comes from the server, and the device was offline too long, or its clock is wrong",
                "connect the device to its server and check its clock",
            ) from None

    def keep(self, sealed: Mapping[str, Json]) -> None:
        """Check and keep what the server sent, durably; raises VerificationFailed, and then keeps nothing."""
        texts = {str(month): str(text) for month, text in sealed.items()}
        opened = {month: self._opened(text) for month, text in texts.items()}
        stored = (self._read() if self._path.exists() else {}) | texts
        write_private(self._path, json.dumps(stored, indent=1).encode("ascii"))
        self._keys |= opened

    def missing(self) -> list[str]:
        """Which of this month and the next ones are not here."""
        return [month for month in _months(self._now(), MONTHS_AHEAD + 1) if month not in self._keys]

    async def refresh(self, server: ServerConnection) -> int:
        """Fetch what is missing; returns how many months came. Raises what the connection raises."""
        months = self.missing()
        if not months:
            return 0
        answer = await server.post("/v1/node/tag-keys", {"months": months})
        keys = answer.get("tag_keys")
        if not isinstance(keys, dict):
            raise VerificationFailed(
                "The server sent no tag keys", "", "install the same version on device and server"
            )
        self.keep(keys)
        return len(keys)

    async def keep_fresh(self, server: ServerConnection) -> None:
        """Refresh now and then until cancelled; what fails is tried again sooner."""
        while True:
            wait_s = FRESH_EVERY_S
            try:
                await self.refresh(server)
            except FedaigcError as error:
                log.info("tag_keys_missing months=%s code=%s", ",".join(self.missing()), error.code)
                wait_s = RETRY_S
            await asyncio.sleep(wait_s)

    def _opened(self, text: str) -> bytes:
        key = self._sealing.open(PURPOSE, unb64(text))
        if len(key) != TAG_KEY_BYTES:
            raise VerificationFailed(
                "A tag key has the wrong length", f"{len(key)} bytes", "ask the operator"
            )
        return key

    def _read(self) -> dict[str, str]:
        try:
            return {str(month): str(text) for month, text in parse_record(read_private(self._path)).items()}
        except VerificationFailed as error:
            raise IdentityError(
                f"{self._path} is damaged", error.why, "delete it: the server sends the keys again"
            ) from error


def _months(now: datetime, count: int) -> list[str]:
    year, month = (int(part) for part in month_of(now).split("-"))
    steps = ((year * 12 + month - 1 + offset) for offset in range(count))
    return [f"{step // 12:04d}-{step % 12 + 1:02d}" for step in steps]
