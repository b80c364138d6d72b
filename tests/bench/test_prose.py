"""Quality is measured on prose, cut into whole windows."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.prose import WINDOW, windows
from tests.tiny_model import make_tiny_hf_folder


def test_windows_are_full_and_the_same_every_time(tmp_path: Path) -> None:
    make_tiny_hf_folder(tmp_path / "hf")
    first = windows(tmp_path, 4)
    assert first.shape == (4, WINDOW)
    assert np.array_equal(first, windows(tmp_path, 4))
    assert not np.array_equal(first[0], first[1])
