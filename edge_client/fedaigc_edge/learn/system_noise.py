"""Standard normal numbers from the operating system's generator.

Privacy noise must not be guessable. A torch generator keeps 32 bits of its seed, so that the noise of an
update, and with it the private sum, could be found by trying 4 billion seeds. Here every number comes from
fresh bytes of the system's cryptographic generator.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Normals = npt.NDArray[np.float64]
NoiseSource = Callable[[int], Normals]
"""Gives `count` independent standard normal numbers, (count,)."""

_DRAWS = 4


def system_noise(count: int, random_bytes: Callable[[int], bytes] = secrets.token_bytes) -> Normals:
    """`count` independent standard normal numbers.

    Each is half the sum of four, because the low bits of a single floating-point draw tell what it was
    added to (Mironov 2012); with four the search takes 2**159 tries (Holohan and Braghin 2021, section
    5.1).
    """
    total: Normals = np.zeros(count, dtype=np.float64)
    for _ in range(_DRAWS):
        total += _box_muller(count, random_bytes)
    total /= float(_DRAWS) ** 0.5
    return total


def _box_muller(count: int, random_bytes: Callable[[int], bytes]) -> Normals:
    pairs = (count + 1) // 2
    words = np.frombuffer(random_bytes(16 * pairs), dtype="<u8") >> np.uint64(11)
    # In (0, 1]: the logarithm of 0 does not exist.
    uniform = (words.astype(np.float64) + 1.0) / 2.0**53
    radius = np.sqrt(-2.0 * np.log(uniform[:pairs]))
    angle = 2.0 * np.pi * uniform[pairs:]
    normal: Normals = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count]
    return normal
