"""Tag keys: sealed on disk, checked on arrival, fetched ahead."""

from __future__ import annotations

import asyncio
import json
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fedaigc.errors import IdentityError, VerificationFailed
from fedaigc.sealing import SealingKey
from fedaigc.signing import b64
from fedaigc_edge.federation import tag_keys as module
from fedaigc_edge.federation.tag_keys import TAG_KEYS_FILE, TagKeys

KEY = SealingKey.generate()
NOVEMBER = datetime(2026, 11, 30, 23, 59, tzinfo=UTC)


def _sealed(value: bytes, key: SealingKey = KEY, purpose: str = "tag-key") -> str:
    return b64(key.public.seal(purpose, value))


class _Server:
    def __init__(self, answer: dict[str, Any]) -> None:
        self.answer, self.asked = answer, list[Any]()

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.asked.append((path, body))
        return self.answer


def test_a_key_is_kept_sealed_and_read_back(tmp_path: Path) -> None:
    TagKeys(tmp_path, KEY).keep({"2026-11": _sealed(b"k" * 32)})
    assert TagKeys(tmp_path, KEY).key("2026-11") == b"k" * 32
    path = tmp_path / TAG_KEYS_FILE
    assert b"k" * 32 not in path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_this_month_and_the_next_two_are_fetched_over_the_turn_of_the_year(tmp_path: Path) -> None:
    keys = TagKeys(tmp_path, KEY, now=lambda: NOVEMBER)
    keys.keep({"2026-11": _sealed(b"a" * 32)})
    server = _Server({"tag_keys": {"2026-12": _sealed(b"b" * 32), "2027-01": _sealed(b"c" * 32)}})
    assert asyncio.run(keys.refresh(server)) == 2  # type: ignore[arg-type]
    assert server.asked == [("/v1/node/tag-keys", {"months": ["2026-12", "2027-01"]})]
    assert keys.key("2027-01") == b"c" * 32
    assert asyncio.run(keys.refresh(server)) == 0  # type: ignore[arg-type]
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "text",
    [
        _sealed(b"k" * 31),
        _sealed(b"k" * 32, SealingKey.generate()),
        _sealed(b"k" * 32, purpose="opening"),
        "not base64!",
    ],
)
def test_a_wrong_key_is_refused_and_nothing_is_kept(tmp_path: Path, text: str) -> None:
    keys = TagKeys(tmp_path, KEY)
    with pytest.raises(VerificationFailed):
        keys.keep({"2026-11": _sealed(b"k" * 32), "2026-12": text})
    assert not (tmp_path / TAG_KEYS_FILE).exists()
    with pytest.raises(IdentityError, match="2026-11"):
        keys.key("2026-11")


def test_an_answer_without_keys_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VerificationFailed):
        asyncio.run(TagKeys(tmp_path, KEY).refresh(_Server({})))  # type: ignore[arg-type]


def test_a_damaged_file_says_to_delete_it(tmp_path: Path) -> None:
    path = tmp_path / TAG_KEYS_FILE
    path.write_text(json.dumps(["x"]))
    path.chmod(0o600)
    with pytest.raises(IdentityError, match="delete it"):
        TagKeys(tmp_path, KEY)


def test_keeping_fresh_goes_on_after_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0.01)
    monkeypatch.setattr(module, "FRESH_EVERY_S", 0.01)
    keys = TagKeys(tmp_path, KEY, now=lambda: NOVEMBER)
    server = _Server({})

    async def go() -> None:
        task = asyncio.create_task(keys.keep_fresh(server))  # type: ignore[arg-type]
        async with asyncio.timeout(5):
            while len(server.asked) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            server.answer = {"tag_keys": {"2026-11": _sealed(b"a" * 32)}}
            while "2026-11" in keys.missing():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        task.cancel()

    asyncio.run(go())
    assert keys.key("2026-11") == b"a" * 32
