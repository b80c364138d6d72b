from __future__ import annotations

import json
from pathlib import Path

from tests.server.asgi_call import call
from tests.server.conftest import Site
from tests.server.public.conftest import SuperLink, build_public


def test_every_byte_in_and_out_is_kept_and_can_be_found(site: Site, tmp_path: Path) -> None:
    app = build_public(site, SuperLink(), tmp_path / "tap")
    call(app, "POST", "/v1/enrol", b'{"marker":"a body that a device sent"}')
    answer = call(
        app, "GET", "/nowhere?query=marker-in-the-query", headers={"x-header": "marker-in-a-header"}
    )
    bodies = (tmp_path / "tap" / "bodies.tap").read_bytes()
    for part in (b"a body that a device sent", b"marker-in-the-query", b"marker-in-a-header", answer.body):
        assert part in bodies
    first, second = map(json.loads, (tmp_path / "tap" / "index.jsonl").read_text().splitlines())
    start, length = first["request"]
    assert bodies[start : start + length] == b'{"marker":"a body that a device sent"}'
    start, length = second["answer"]
    assert bodies[start : start + length] == answer.body
    assert (second["method"], second["path"], second["status"]) == ("GET", "/nowhere", 404)


def test_the_copies_are_private(site: Site, tmp_path: Path) -> None:
    build_public(site, SuperLink(), tmp_path / "tap")
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "tap").iterdir()} == {0o600}
