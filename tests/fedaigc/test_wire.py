"""A signed message is read whole and unchanged, or not at all."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from fedaigc.errors import VerificationFailed
from fedaigc.signing import SigningKey
from fedaigc.wire import MAGIC, MAX_HEADER_BYTES, open_message, seal_message

KEY = SigningKey.generate()
RECORD = {"v": 1, "name": "value"}


def test_record_and_payload_come_back() -> None:
    fields, payload = open_message("test", seal_message("test", RECORD, KEY, b"payload"), KEY.public)
    assert dict(fields.record) == RECORD
    assert payload == b"payload"


def test_every_flipped_bit_and_every_cut_is_noticed() -> None:
    message = seal_message("test", RECORD, KEY, b"payload")
    for place in range(len(message)):
        for bit in range(8):
            damaged = bytearray(message)
            damaged[place] ^= 1 << bit
            with pytest.raises(VerificationFailed):
                open_message("test", bytes(damaged), KEY.public)
        with pytest.raises(VerificationFailed):
            open_message("test", message[:place], KEY.public)


def test_another_key_or_purpose_is_refused() -> None:
    message = seal_message("test", RECORD, KEY)
    with pytest.raises(VerificationFailed):
        open_message("test", message, SigningKey.generate().public)
    with pytest.raises(VerificationFailed):
        open_message("other", message, KEY.public)


def test_a_payload_cannot_be_moved_under_another_header() -> None:
    one, two = (seal_message("test", RECORD, KEY, payload) for payload in (b"first!!", b"second!"))
    with pytest.raises(VerificationFailed, match="cannot be read"):
        open_message("test", one[:-7] + two[-7:], KEY.public)


def test_sizes_are_checked_before_anything_is_parsed() -> None:
    message = seal_message("test", RECORD, KEY, b"x" * 100)
    with pytest.raises(VerificationFailed, match="limit 150"):
        open_message("test", message, KEY.public, limit=150)
    long_header = MAGIC + struct.pack(">I", MAX_HEADER_BYTES + 1) + bytes(MAX_HEADER_BYTES + 100)
    with pytest.raises(VerificationFailed, match="header is longer"):
        open_message("test", long_header, KEY.public)
    with pytest.raises(VerificationFailed):
        seal_message("test", {"text": "x" * MAX_HEADER_BYTES}, KEY)


def test_a_record_may_not_use_the_framing_s_own_fields() -> None:
    with pytest.raises(VerificationFailed, match="reserved"):
        seal_message("test", {"payload": "mine"}, KEY)


def test_random_bytes_never_raise_anything_else() -> None:
    draw = np.random.default_rng(5)
    for _ in range(200):
        noise = MAGIC + draw.bytes(int(draw.integers(0, 300)))
        with pytest.raises(VerificationFailed):
            open_message("test", noise, KEY.public)
