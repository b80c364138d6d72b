"""A real device with a tiny model, joined to a real server: the whole serving side, started in seconds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.fleet import Edge, Server, stop_all
from tests.tiny_model import CHAT_TEMPLATE, TINY_NAME, export_tiny, make_tiny_hf_folder

CONTEXT = 1024
"""The tiny tokenizer knows few words: the description of a tool has some 250 tokens."""
TOOLS_TEMPLATE = "{% if tools %}{{ '<|im_start|>system\n' + tools | tojson + '<|im_end|>\n' }}{% endif %}"


@contextmanager
def tiny_device(root: Path, settings: str = "") -> Iterator[Edge]:
    """A device that serves a tiny model whose chat template takes tools; `settings` is its TOML file."""
    folder = make_tiny_hf_folder(root / "hf")
    _change(folder / "tokenizer_config.json", chat_template=TOOLS_TEMPLATE + CHAT_TEMPLATE)
    _change(folder / "config.json", max_position_embeddings=CONTEXT)
    export_tiny(folder, root / "models")
    config = root / "edge.toml"
    config.write_text(settings, encoding="utf-8")
    server = Server(root)
    edge = Edge("edge", root, root / "models", TINY_NAME)
    try:
        server.start()
        edge.join(f"https://127.0.0.1:{server.port}", server.token("test")["token"], "--config", config)
        yield edge
    finally:
        stop_all(edge, server)


def _change(path: Path, **fields: object) -> None:
    record = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**record, **fields}), encoding="utf-8")
