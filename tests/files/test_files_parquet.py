"""Logits in .parquet files, written by pyarrow and by pandas."""

from __future__ import annotations

import builtins
import os
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from energyalign import EnergyAlignError
from energyalign.files import open_shards

NAMES = ("ant", "bee", "cat", "dog", "eel")


def as_lists(logits: np.ndarray, kind: str) -> pa.Array:
    number = pa.from_numpy_dtype(logits.dtype)
    kinds = {
        "fixed": pa.list_(number, logits.shape[1]),
        "list": pa.list_(number),
        "large": pa.large_list(number),
    }
    return pa.array(list(logits), type=kinds[kind])


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("group", [4, 1000])
def test_a_column_for_each_class(tmp_path, logits, read, small_blocks, *, dtype, group):
    saved = logits.astype(dtype)
    table = pa.table({name: saved[:, index] for index, name in enumerate(NAMES)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=group)
    shards = open_shards([tmp_path / "a.parquet"])
    assert shards.class_names == NAMES
    assert shards.labels is None
    for block in shards.blocks():
        assert block.nbytes <= small_blocks
        assert block.flags.c_contiguous
        assert block.dtype == np.dtype(dtype) == shards.dtype
    np.testing.assert_array_equal(read(tmp_path / "a.parquet"), saved)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("kind", ["fixed", "list", "large"])
def test_one_column_of_lists_beside_any_others(tmp_path, logits, read, small_blocks, *, dtype, kind):
    saved = logits.astype(dtype)
    table = pa.table({"id": [str(index) for index in range(23)], "logits": as_lists(saved, kind)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=7)
    shards = open_shards([tmp_path / "a.parquet"])
    assert shards.class_names is None
    assert all(block.nbytes <= small_blocks and block.dtype == np.dtype(dtype) for block in shards.blocks())
    np.testing.assert_array_equal(read(tmp_path / "a.parquet"), saved)


def test_a_list_column_of_another_name_is_read_by_its_key(tmp_path, logits, read):
    pq.write_table(pa.table({"scores": as_lists(logits, "list")}), tmp_path / "a.parquet")
    np.testing.assert_array_equal(read(tmp_path / "a.parquet", key="scores"), logits)
    with pytest.raises(EnergyAlignError, match="has no list column 'nope'; its columns: scores"):
        open_shards([tmp_path / "a.parquet"], key="nope")


def test_columns_of_two_float_types_become_the_wider(tmp_path, read):
    table = pa.table({"a": np.float32([0.1, 0.2]), "b": np.float64([0.1, 0.2])})
    pq.write_table(table, tmp_path / "a.parquet")
    values = read(tmp_path / "a.parquet")
    assert values.dtype == np.float64
    assert values[0].tolist() == [float(np.float32(0.1)), 0.1]


@pytest.mark.parametrize(
    "labels",
    [
        [0, 4, 2],
        [0.0, 4.0, 2.0],
        ["ant", "eel", "cat"],
        pd.Categorical(["ant", "eel", "cat"]),
    ],
)
def test_labels_written_by_pandas(tmp_path, logits, read, labels):
    frame = pd.DataFrame(logits[:3], columns=list(NAMES)).assign(label=labels)
    frame.to_parquet(tmp_path / "a.parquet", index=False)
    shards = open_shards([tmp_path / "a.parquet"])
    assert shards.labels is not None
    assert shards.labels.tolist() == [0, 4, 2]
    assert shards.class_names == NAMES
    np.testing.assert_array_equal(read(tmp_path / "a.parquet"), logits[:3])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": [1, 2], "a": [0.5, 1.5], "b": [0.5, 1.5]}, r"not floating point: id \(int64\)"),
        ({"a": ["x", "y"], "b": [0.5, 1.5]}, r"a \(string\)"),
        ({"a": [True, False], "b": [0.5, 1.5]}, r"a \(bool\)"),
        ({"a": [0.5, 1.5]}, "must have at least 2 columns, one per class, got 1"),
        ({"label": [0, 1]}, "must have at least 2 columns, one per class, got 0"),
        ({"a": pa.array([], pa.float32()), "b": pa.array([], pa.float32())}, "no rows"),
        ({"logits": pa.array([], pa.list_(pa.float32()))}, "no rows"),
        ({"logits": [[1, 2], [3, 4]]}, r"not floating point: logits \(int64\)"),
        ({"logits": [["x", "y"], ["x", "y"]]}, r"not floating point: logits \(string\)"),
        ({"logits": pa.array([None, [1.0, 2.0]])}, "row 0 .*column 'logits' is null"),
        ({"a": [0.5], "b": [0.5], "label": [0], "labels": [0]}, "both `label` and `labels`"),
        ({"": [0.5], "b": [0.5]}, "column 1 has no name.*index=False"),
    ],
)
def test_tables_that_are_no_logits_are_refused_at_opening(tmp_path, columns, message):
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(EnergyAlignError, match=message) as caught:
        open_shards([tmp_path / "a.parquet"])
    assert "a.parquet" in str(caught.value)


def test_two_columns_of_one_name_are_refused(tmp_path):
    table = pa.Table.from_arrays([pa.array([0.5])] * 3, names=["a", "b", "a"])
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(EnergyAlignError, match="duplicate class names: a"):
        open_shards([tmp_path / "a.parquet"])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"logits": [[1.0, 2.0], [1.0, 2.0], [1.0]]}, "row 2 .*expected 2 logits as in the first row, got 1"),
        ({"logits": [[1.0, 2.0], [1.0, 2.0], None]}, "row 2 .*column 'logits' is null"),
        ({"logits": [[1.0, 2.0], [1.0, None], [1.0, 2.0]]}, "row 1 .*column 'logits' is null"),
        ({"a": [1.0, 2.0, None], "b": [1.0, 2.0, 3.0]}, "row 2 .*column 'a' is null"),
    ],
)
def test_missing_numbers_are_refused_with_their_row(tmp_path, monkeypatch, columns, message):
    monkeypatch.setattr("energyalign.files.checks.BLOCK_BYTES", 1)  # every row a block of its own
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    shards = open_shards([tmp_path / "a.parquet"])
    with pytest.raises(EnergyAlignError, match=rf"a\.parquet, {message}"):
        list(shards.blocks())


def test_a_missing_label_is_refused_with_its_row(tmp_path):
    pq.write_table(pa.table({"a": [0.5, 1.5], "b": [0.5, 1.5], "label": [0, None]}), tmp_path / "a.parquet")
    with pytest.raises(EnergyAlignError, match=r"row 1 .*column 'label' is null"):
        _ = open_shards([tmp_path / "a.parquet"]).labels


def test_labels_that_are_no_text_are_refused(tmp_path):
    # Arrow stores the bytes as a string unchecked, and fails only when Python converts it.
    broken = pa.array([b"\xff\xfe", b"a"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"a": [0.5, 1.5], "b": [0.5, 1.5], "label": broken}), tmp_path / "a.parquet")
    with pytest.raises(EnergyAlignError, match=r"a\.parquet is damaged"):
        _ = open_shards([tmp_path / "a.parquet"]).labels


@pytest.mark.parametrize("kept", [1, 4, 100, -1, -9])
def test_truncated_files_are_refused(tmp_path, logits, kept):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"logits": as_lists(logits, "list")}), path)
    os.truncate(path, kept if kept > 0 else path.stat().st_size + kept)
    with pytest.raises(EnergyAlignError, match=r"a\.parquet is damaged or not a \.parquet file"):
        open_shards([path])


def test_damaged_pages_are_refused(tmp_path, logits):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"logits": as_lists(logits, "list")}), path)
    content = bytearray(path.read_bytes())
    content[4:60] = b"\xff" * 56
    path.write_bytes(content)
    with pytest.raises(EnergyAlignError, match=r"a\.parquet is damaged"):
        list(open_shards([path]).blocks())


def test_without_pyarrow_the_message_says_how_to_install_it(tmp_path, monkeypatch):
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    for module in ("pyarrow", "pyarrow.parquet", "pyarrow.compute"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(EnergyAlignError, match=r"a\.parquet needs pyarrow.*pip install 'energyalign\[parquet\]'"):
        open_shards([tmp_path / "a.parquet"])


def test_other_formats_do_not_import_pyarrow(tmp_path, logits, read, monkeypatch):
    real = builtins.__import__

    def no_pyarrow(name, *rest, **options):
        assert not name.startswith("pyarrow")
        return real(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", no_pyarrow)
    for module in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, module, None)
    np.save(tmp_path / "a.npy", logits)
    np.testing.assert_array_equal(read(tmp_path / "a.npy"), logits)
