"""The text on which quality is measured: Python's own reference, as every Python installation has it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

WINDOW = 1024
TOPICS = ("execmodel", "objects", "types", "exceptions", "naming", "customization", "imports", "compound")


def windows(model_root: Path, count: int) -> npt.NDArray[np.int64]:
    """The first `count` windows of the text as tokens of the model, (count, WINDOW)."""
    from pydoc_data.topics import topics

    from tokenizers import Tokenizer

    text = "\n\n".join(_plain(topics[name]) for name in TOPICS if name in topics)
    tokenizer: Any = Tokenizer.from_file(str(model_root / "hf" / "tokenizer.json"))
    tokens = tokenizer.encode(text, add_special_tokens=False).ids[: count * WINDOW]
    return np.asarray(tokens, np.int64).reshape(count, WINDOW)


def _plain(topic: str) -> str:
    return re.sub(r"\n{3,}", "\n\n", topic)
