from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest

from fedaigc_edge.engine import huge_pages
from fedaigc_edge.engine.huge_pages import HUGE, Mapping, use_huge_pages, writable_mappings

SMAPS = """\
7f0000000000-7f0000600000 rw-p 00000000 00:00 0
Size:               6144 kB
VmFlags: rd wr mr mw me ac sd
7f0000600000-7f0000c00000 rw-p 00000000 00:00 0
VmFlags: rd wr mr mw me ac nh
7f0001000000-7f0001600000 r--p 00000000 fe:00 17                 /usr/lib/x.so
VmFlags: rd mr mw me
7f0002000000-7f0002600000 rw-p 00000000 fe:00 17                 /usr/lib/x.so
VmFlags: rd wr mr mw me
55d000000000-55d000600000 rw-p 00000000 00:00 0                          [heap]
VmFlags: rd wr mr mw me ac
7ffc00000000-7ffc00600000 rw-p 00000000 00:00 0                          [stack]
VmFlags: rd wr mr mw me gd ac
""".splitlines()


def test_only_anonymous_memory_that_nobody_wants_small_is_taken() -> None:
    assert writable_mappings(SMAPS) == [
        Mapping(0x7F0000000000, 0x7F0000600000),
        Mapping(0x55D000000000, 0x55D000600000),
    ]


@pytest.mark.parametrize(
    ("start", "end", "pages"),
    [(0, HUGE, [0]), (1, HUGE, []), (1, 3 * HUGE, [HUGE, 2 * HUGE]), (HUGE, 2 * HUGE - 1, [])],
)
def test_only_whole_pages_inside_a_mapping_are_touched(start: int, end: int, pages: list[int]) -> None:
    assert list(Mapping(start, end).whole_pages()) == pages


def test_memory_keeps_its_content() -> None:
    array = np.arange(4 * HUGE // 8, dtype=np.int64)
    assert use_huge_pages() >= 0
    assert np.array_equal(array, np.arange(len(array)))


def test_memory_that_wants_small_pages_keeps_them() -> None:
    if not hasattr(mmap, "MADV_NOHUGEPAGE"):
        pytest.skip("this kernel has no huge pages")
    memory = mmap.mmap(-1, 4 * HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    memory[:: 64 * 1024] = bytes(len(memory[:: 64 * 1024]))
    address = np.frombuffer(memory, np.uint8).ctypes.data
    lines = huge_pages._SMAPS.read_text().splitlines()
    assert not any(one.start <= address < one.end for one in writable_mappings(lines))


def test_a_system_without_the_kernels_table_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(huge_pages, "_SMAPS", tmp_path / "nothing")
    assert use_huge_pages() == 0
