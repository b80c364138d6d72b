from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest

from fedaigc.arrays import FloatArray
from fedaigc.errors import ModelError
from fedaigc_edge.model.gguf_blocks import GgufBlocks, stacked
from tests.edge.model.tiny_gguf import permuted, quantised_tiny

ROWS, COLUMNS, HEADS = 24, 96, 3


def file_of(path: Path, **matrices: str) -> dict[str, FloatArray]:
    """Write random matrices of the given types; returns them as gguf itself dequantises them."""
    random = np.random.default_rng(5)
    writer = gguf.GGUFWriter(path, "llama")
    expected = {}
    for name, kind in matrices.items():
        dense = random.standard_normal((ROWS, COLUMNS)).astype(np.float32)
        packed = gguf.quants.quantize(dense, gguf.GGMLQuantizationType[kind])
        writer.add_tensor(name, packed, raw_dtype=gguf.GGMLQuantizationType[kind])
        expected[name] = gguf.quants.dequantize(packed, gguf.GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return expected


def test_both_types_read_as_the_gguf_library_reads_them(tmp_path: Path) -> None:
    expected = file_of(tmp_path / "m.gguf", a="Q4_1", b="Q8_0")
    blocks = GgufBlocks(tmp_path / "m.gguf")
    assert (blocks.read("a").bits, blocks.read("b").bits) == (4, 8)
    for name, dense in expected.items():
        np.testing.assert_allclose(blocks.read(name).dense(), dense, rtol=0, atol=1e-6)


def test_columns_are_those_of_the_matrix_without_its_offsets(tmp_path: Path) -> None:
    file_of(tmp_path / "m.gguf", a="Q4_1", b="Q8_0")
    for name in ("a", "b"):
        found = GgufBlocks(tmp_path / "m.gguf").read(name)
        offsets = 0.0 if found.offsets is None else np.repeat(found.offsets, 32, axis=1)
        chosen = [0, 31, 32, 95]
        np.testing.assert_allclose(found.columns(chosen), (found.dense() - offsets)[:, chosen].T, atol=1e-6)


def test_a_converters_order_of_rows_is_undone(tmp_path: Path) -> None:
    file_of(tmp_path / "m.gguf", a="Q4_1")
    found = GgufBlocks(tmp_path / "m.gguf").read("a")
    np.testing.assert_array_equal(permuted(found.unpermuted(HEADS).dense(), HEADS), found.dense())


def test_packed_nibbles_hold_neighbours(tmp_path: Path) -> None:
    file_of(tmp_path / "m.gguf", a="Q4_1")
    found = GgufBlocks(tmp_path / "m.gguf").read("a")
    packed = found.packed()
    assert packed.shape == (ROWS, COLUMNS // 32, 16)
    np.testing.assert_array_equal(packed & 15, found.codes[..., 0::2])
    np.testing.assert_array_equal(packed >> 4, found.codes[..., 1::2])


def test_matrices_stack_in_order(tmp_path: Path) -> None:
    file_of(tmp_path / "m.gguf", a="Q4_1", b="Q4_1")
    blocks = GgufBlocks(tmp_path / "m.gguf")
    one, two = blocks.read("a"), blocks.read("b")
    np.testing.assert_array_equal(stacked([one, two]).dense(), np.concatenate([one.dense(), two.dense()]))


def test_matrices_of_different_types_do_not_stack(tmp_path: Path) -> None:
    file_of(tmp_path / "m.gguf", a="Q4_1", b="Q8_0")
    blocks = GgufBlocks(tmp_path / "m.gguf")
    with pytest.raises(ModelError, match="cannot be served exactly"):
        stacked([blocks.read("a"), blocks.read("b")])


@pytest.mark.parametrize("name", ["a", "missing"])
def test_another_type_or_no_matrix_names_what_to_do(tmp_path: Path, name: str) -> None:
    file_of(tmp_path / "m.gguf", a="Q5_0")
    with pytest.raises(ModelError) as refused:
        GgufBlocks(tmp_path / "m.gguf").read(name)
    assert "--precision int8" in refused.value.do_next and name in refused.value.why


def test_what_is_not_exact_is_listed_with_its_type(tmp_path: Path) -> None:
    file_of(tmp_path / "m.gguf", a="Q4_1", b="Q5_0", c="Q8_0")
    assert GgufBlocks(tmp_path / "m.gguf").inexact() == ["b (Q5_0)"]


def test_the_whole_tiny_model_is_exact(tmp_path: Path) -> None:
    source, _ = quantised_tiny(tmp_path)
    assert GgufBlocks(source / "tiny.gguf").inexact() == []


def test_a_damaged_file_is_a_model_error(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"GGUF" + b"\xff" * 64)
    with pytest.raises(ModelError, match="damaged"):
        GgufBlocks(tmp_path / "m.gguf")
