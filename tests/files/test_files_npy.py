"""Logits in .npy files, written by NumPy itself."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from energyalign import EnergyAlignError, Evidence
from energyalign.files import checks, open_shards
from energyalign.files.npy import NpyShard, read_header, read_vector_file


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f2", ">f4", ">f8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_every_float_type_order_and_byte_order_comes_back(tmp_path, logits, read, small_blocks, *, dtype, order):
    saved = np.array(logits, dtype=dtype, order=order)
    np.save(tmp_path / "a.npy", saved)
    shards = open_shards([tmp_path / "a.npy"])
    for block in shards.blocks():
        assert type(block) is np.ndarray
        assert block.flags.c_contiguous
        assert block.dtype == np.dtype(dtype).newbyteorder("=") == shards.dtype
        assert block.dtype.isnative
        assert block.nbytes <= small_blocks
    np.testing.assert_array_equal(read(tmp_path / "a.npy"), saved)
    assert shards.class_names is None
    assert shards.labels is None


@settings(max_examples=60, deadline=None)
@given(
    array=hnp.arrays(
        dtype=hnp.floating_dtypes(endianness="?"),
        shape=st.tuples(st.integers(1, 12), st.integers(2, 6)),
    ),
    fortran=st.booleans(),
    block_bytes=st.integers(1, 200),
)
def test_any_table_comes_back_bit_by_bit(array, fortran, block_bytes):
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("energyalign.files.checks.BLOCK_BYTES", block_bytes)
        path = Path(folder) / "a.npy"
        np.save(path, np.asfortranarray(array) if fortran else array)
        blocks = list(open_shards([path]).blocks())
    np.testing.assert_array_equal(np.concatenate(blocks), array)


def test_blocks_are_at_most_16_MB_and_not_tiny(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((600_000, 10), dtype=np.float64))
    sizes = [block.nbytes for block in open_shards([tmp_path / "a.npy"]).blocks()]
    assert max(sizes) <= 16 * 2**20
    assert len(sizes) == 3


def test_a_row_larger_than_a_block_is_a_block(tmp_path, read, small_blocks):
    table = np.arange(90, dtype=np.float64).reshape(3, 30)
    np.save(tmp_path / "a.npy", table)
    assert [len(block) for block in open_shards([tmp_path / "a.npy"]).blocks()] == [1, 1, 1]
    assert table[0].nbytes > small_blocks
    np.testing.assert_array_equal(read(tmp_path / "a.npy"), table)


def test_format_version_2_and_unaligned_data_are_read(tmp_path, logits, read):
    with (tmp_path / "two.npy").open("wb") as stream:
        np.lib.format.write_array(stream, logits, version=(2, 0))
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {logits.shape}}}\n".encode()
    odd = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + logits.tobytes()
    assert (len(odd) - logits.nbytes) % 4
    (tmp_path / "odd.npy").write_bytes(odd)
    np.testing.assert_array_equal(read(tmp_path / "two.npy"), logits)
    np.testing.assert_array_equal(read(tmp_path / "odd.npy"), logits)
    assert next(open_shards([tmp_path / "odd.npy"]).blocks()).flags.aligned


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((2, 0, 4)), r"has no logits \(shape \(2, 0, 4\)\)"),
        (np.asfortranarray(np.zeros((2, 3, 4))), "is in Fortran order"),
        (np.array(1.0), r"got \(\)"),
        (np.zeros((3, 4), dtype=np.int64), "must hold floating-point logits, got int64: save the scores"),
        (np.zeros((3, 4), dtype=np.uint8), "must hold floating-point logits, got uint8"),
        (np.zeros((3, 4), dtype=bool), "must hold floating-point logits, got bool"),
        (np.zeros((3, 4), dtype=complex), "must hold floating-point logits, got complex128"),
        (np.full((3, 4), "cat"), "must hold floating-point logits, got <U3"),
        (np.zeros((3, 4), dtype="M8[s]"), "must hold floating-point logits, got datetime64"),
        (np.zeros((3, 4), dtype=[("a", "f4")]), "got .*'a'"),
        (np.zeros((0, 4)), "has no rows"),
        (np.zeros((3, 0)), "must have at least 2 columns, one per class, got 0"),
    ],
)
def test_what_is_no_table_of_logits_is_refused(tmp_path, array, message):
    np.save(tmp_path / "bad.npy", array)
    with pytest.raises(EnergyAlignError, match=message) as caught:
        open_shards([tmp_path / "bad.npy"])
    assert "bad.npy" in str(caught.value)


@pytest.mark.parametrize("missing", [1, 4, 5, 20, 459, 460])
def test_truncated_numbers_are_refused_with_what_is_missing(tmp_path, logits, missing):
    np.save(tmp_path / "a.npy", logits)
    os.truncate(tmp_path / "a.npy", (tmp_path / "a.npy").stat().st_size - missing)
    with pytest.raises(EnergyAlignError, match=rf"a\.npy is truncated: {missing} bytes are missing"):
        open_shards([tmp_path / "a.npy"])


@pytest.mark.parametrize("kept", [1, 6, 8, 9, 10, 50, 127])
def test_a_truncated_header_is_refused(tmp_path, logits, kept):
    np.save(tmp_path / "a.npy", logits)
    os.truncate(tmp_path / "a.npy", kept)
    with pytest.raises(EnergyAlignError, match=r"a\.npy is damaged or not a \.npy array"):
        open_shards([tmp_path / "a.npy"])


def test_two_arrays_in_one_file_are_refused(tmp_path, logits):
    with (tmp_path / "a.npy").open("wb") as stream:
        np.save(stream, logits)
        np.save(stream, logits)
    with pytest.raises(EnergyAlignError, match=r"588 bytes too many"):
        open_shards([tmp_path / "a.npy"])


def test_a_file_that_shrinks_after_opening_is_refused(tmp_path, logits):
    np.save(tmp_path / "a.npy", logits)
    shards = open_shards([tmp_path / "a.npy"])
    os.truncate(tmp_path / "a.npy", 200)
    with pytest.raises(EnergyAlignError, match="changed while it was read"):
        next(shards.blocks())


def with_header(text: bytes, version: int = 1) -> bytes:
    return b"\x93NUMPY" + bytes([version, 0]) + len(text).to_bytes(2 if version == 1 else 4, "little") + text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not numpy at all", "magic string is not correct"),
        (with_header(b"{'descr': ("), "is damaged"),
        (with_header(b"[1, 2]"), "not a dictionary"),
        (with_header(b"{'descr': '<f4', 'fortran_order': False}"), "correct keys"),
        (with_header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (-3, 4)}"), "no rows"),
        (with_header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (10**30, 4)}"), "is damaged"),
        (with_header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (%d, 4)}" % 10**30), "is truncated"),
        (with_header(b"{'descr': 'nonsense', 'fortran_order': False, 'shape': (3, 4)}"), "is damaged"),
        (with_header(b"-" * 9_000 + b"1"), "is damaged"),
        (with_header(b"(" * 9_000), "is damaged"),
        (with_header(b" " * 60_000), "is damaged"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\x7f" + b" " * 60_000, "is damaged"),
        (with_header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2)}", version=3), "version 3.0"),
        (b"\x93NUMPY\x09\x09" + bytes(100), "version 9.9"),
    ],
)
def test_hostile_headers_are_refused(tmp_path, content, message):
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(EnergyAlignError, match=message) as caught:
        open_shards([tmp_path / "a.npy"])
    assert "a.npy" in str(caught.value)


def test_a_header_of_gigabytes_is_not_read(tmp_path):
    path = tmp_path / "a.npy"
    path.write_bytes(b"\x93NUMPY\x02\x00\xff\xff\xff\x7f")
    os.truncate(path, 2**31)
    with path.open("rb") as stream:
        with pytest.raises(EnergyAlignError, match="is damaged"):
            read_header(stream, "a.npy")
        assert stream.tell() <= 10_000


def test_vectors_have_one_dimension_and_native_byte_order(tmp_path):
    np.save(tmp_path / "v.npy", np.array([3, 1, 2], dtype=">i2"))
    values = read_vector_file(tmp_path / "v.npy")
    assert values.tolist() == [3, 1, 2]
    assert values.dtype == np.dtype(np.int16)
    np.save(tmp_path / "m.npy", np.zeros((2, 2)))
    with pytest.raises(EnergyAlignError, match=r"m\.npy must have one dimension, got shape \(2, 2\)"):
        read_vector_file(tmp_path / "m.npy")


@pytest.mark.parametrize("shape", [(7,), (7, 1), (7, 4, 3), (7, 3, 4, 5), (7, 1, 2, 2)])
def test_other_heads_are_read_as_rows_and_as_they_are(tmp_path, monkeypatch, shape):
    monkeypatch.setattr(checks, "BLOCK_BYTES", 500)  # several blocks
    logits = np.random.default_rng(0).normal(size=shape)
    np.save(tmp_path / "a.npy", logits)
    shards = open_shards([tmp_path / "a.npy"])
    rows = Evidence.from_arrays(logits)
    expected = np.concatenate([block.logits for block in rows.blocks()])
    np.testing.assert_array_equal(np.concatenate(list(shards.blocks())), expected)
    np.testing.assert_array_equal(
        np.concatenate([block for part in shards.parts() for block in part.blocks()]), expected
    )
    np.testing.assert_array_equal(np.concatenate(list(shards.sample_blocks())), logits)
    assert (shards.n_rows, shards.n_classes) == expected.shape
    assert (shards.n_samples, *shards.sample_shape) == shape
    if rows.groups is None:
        assert shards.samples is None
    else:
        np.testing.assert_array_equal(shards.samples, rows.groups)


def test_pieces_are_of_whole_samples(tmp_path):
    logits = np.random.default_rng(0).normal(size=(5, 3, 2, 2))
    np.save(tmp_path / "a.npy", logits)
    pieces = NpyShard(tmp_path / "a.npy", "a").cut(6)  # an image has 4 pixels
    assert [piece.n_rows for piece in pieces] == [4] * 5
    np.testing.assert_array_equal(np.concatenate([b for piece in pieces for b in piece.sample_blocks()]), logits)
