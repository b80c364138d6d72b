"""Arrays travel as safetensors, and nothing else is read."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from safetensors.numpy import save

from fedaigc.arrays import arrays_from_bytes, arrays_to_bytes
from fedaigc.errors import VerificationFailed

ARRAYS = {"b": np.ones((2, 3), np.float32), "a": np.zeros(4, np.float32)}
ABOUT = {"kind": "test", "v": 1}


def _with_header(header: object, body: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def test_arrays_come_back_read_only_and_equal() -> None:
    arrays, about = arrays_from_bytes(arrays_to_bytes(ARRAYS, ABOUT))
    assert about == ABOUT
    assert set(arrays) == {"a", "b"}
    assert all(np.array_equal(arrays[name], ARRAYS[name]) for name in ARRAYS)
    assert not arrays["a"].flags.writeable


def test_equal_content_gives_equal_bytes_whatever_the_order() -> None:
    turned = dict(reversed(ARRAYS.items()))
    assert arrays_to_bytes(turned, dict(reversed(ABOUT.items()))) == arrays_to_bytes(ARRAYS, ABOUT)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x01",
        struct.pack("<Q", 2**63),
        struct.pack("<Q", 50) + b"{}",
        _with_header([]),
        _with_header({}),
        _with_header({"__metadata__": {"other": "1"}}),
        _with_header({"__metadata__": {"fedaigc": "not json"}}),
        _with_header({"__metadata__": {"fedaigc": "{}"}, "a": 3}),
        _with_header(
            {"__metadata__": {"fedaigc": "{}"}, "a": {"dtype": "F32", "shape": [9], "data_offsets": [0, 36]}}
        ),
        save({"a": np.ones(2, np.float64)}, metadata={"fedaigc": "{}"}),
        save({"a": np.array([1, np.nan], np.float32)}, metadata={"fedaigc": "{}"}),
    ],
)
def test_anything_but_our_finite_float32_arrays_is_refused(data: bytes) -> None:
    with pytest.raises(VerificationFailed):
        arrays_from_bytes(data)


def test_no_cut_or_flipped_byte_raises_anything_but_verification_failed() -> None:
    whole = arrays_to_bytes(ARRAYS, ABOUT)
    draw = np.random.default_rng(3)
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[draw.integers(len(damaged))] ^= 1 << int(draw.integers(8))
        for data in (bytes(damaged), whole[: draw.integers(len(whole))]):
            try:
                arrays_from_bytes(data)
            except VerificationFailed:
                continue


def test_what_passes_the_limit_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(VerificationFailed, match=r"limit 100\b"):
        arrays_from_bytes(b"x" * 101, limit=100)
