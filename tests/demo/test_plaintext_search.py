from __future__ import annotations

import base64
import json
import os
from pathlib import Path

import pytest

from tests.demo.plaintext_search import leaked_bytes

TEXT = "Press and hold Reset for three seconds, then wait for the green light."
CHINESE = "请按住复位键三秒，等绿灯亮起后再启动水泵。"


@pytest.mark.parametrize("text", [TEXT, CHINESE])
@pytest.mark.parametrize(
    "form",
    [
        lambda text: text.encode(),
        lambda text: text.encode("utf-16-le"),
        lambda text: json.dumps({"x": text}).encode(),
        lambda text: base64.b64encode(b"a" + text.encode()),
        lambda text: base64.b64encode(b"ab" + text.encode()),
        lambda text: base64.urlsafe_b64encode(text.encode()),
        lambda text: text.encode()[7:],
    ],
)
def test_a_planted_text_is_found_in_every_form(tmp_path: Path, text: str, form: object) -> None:
    planted = form(text)  # type: ignore[operator]
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file.db").write_bytes(os.urandom(1000) + planted + os.urandom(1000))
    assert leaked_bytes([text], [tmp_path]) > 0


def test_what_is_not_there_is_not_found(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(os.urandom(100_000))
    assert leaked_bytes([TEXT, CHINESE, "No."], [tmp_path]) == 0
    assert leaked_bytes([], [tmp_path]) == 0


def test_a_text_over_the_border_of_two_blocks_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.demo.plaintext_search.BLOCK_BYTES", 64)
    (tmp_path / "file").write_bytes(b"." * 50 + TEXT.encode())
    assert leaked_bytes([TEXT], [tmp_path]) > 0
