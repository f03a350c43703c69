"""Logits in .csv files, written by NumPy, by pandas and by hand."""

from __future__ import annotations

import io
import os
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from energyalign import EnergyAlignError
from energyalign.files import csv as csv_format
from energyalign.files import open_shards

NAMES = ("ant", "bee", "cat", "dog", "eel")


@pytest.fixture
def write(tmp_path):
    def write_text(text: str | bytes) -> Path:
        path = tmp_path / "a.csv"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write_text


@settings(max_examples=60, deadline=None)
@given(
    table=hnp.arrays(
        np.float64,
        shape=st.tuples(st.integers(1, 12), st.integers(2, 6)),
        elements=st.floats(allow_nan=True, allow_infinity=True),
    ),
    header=st.booleans(),
    block_bytes=st.integers(1, 200),
)
def test_any_table_written_by_pandas_comes_back_exactly(table, header, block_bytes):
    text = io.StringIO()
    # With a header pandas writes 0, 1, 2, ... above columns that have no names.
    pd.DataFrame(table).to_csv(text, index=False, header=header, na_rep="nan")
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("energyalign.files.checks.BLOCK_BYTES", block_bytes)
        path = Path(folder) / "a.csv"
        path.write_text(text.getvalue())
        shards = open_shards([path])
        blocks = list(shards.blocks())
    np.testing.assert_array_equal(np.concatenate(blocks), table)
    assert shards.class_names == (tuple(map(str, range(table.shape[1]))) if header else None)


def test_a_table_written_by_numpy_comes_back(tmp_path, logits, read, small_blocks):
    np.savetxt(tmp_path / "a.csv", logits, delimiter=",", fmt="%.9g")
    np.testing.assert_array_equal(read(tmp_path / "a.csv").astype(np.float32), logits)
    for block in open_shards([tmp_path / "a.csv"]).blocks():
        assert block.dtype == np.float64
        assert block.flags.c_contiguous
        assert block.nbytes <= small_blocks


@pytest.mark.parametrize("name", ["label", "labels"])
@pytest.mark.parametrize("position", [0, 2, 5])
@pytest.mark.parametrize("labels", [["ant", "eel", "cat"], [0, 4, 2], [0.0, 4.0, 2.0]])
def test_header_and_label_column_written_by_pandas(tmp_path, logits, read, *, name, position, labels):
    frame = pd.DataFrame(logits[:3], columns=list(NAMES))
    frame.insert(position, name, labels)
    frame.to_csv(tmp_path / "a.csv", index=False)
    shards = open_shards([tmp_path / "a.csv"])
    assert shards.class_names == NAMES
    assert shards.labels is not None
    assert shards.labels.tolist() == [0, 4, 2]
    np.testing.assert_array_equal(read(tmp_path / "a.csv").astype(np.float32), logits[:3])


@pytest.mark.parametrize(
    ("text", "names", "rows"),
    [
        ("1.5,2\n3,4\n", None, [[1.5, 2], [3, 4]]),
        ("0,1\n3,4\n", ("0", "1"), [[3, 4]]),
        ("1,1\n3,4\n", None, [[1, 1], [3, 4]]),
        ("1,-2\n3,4\n", None, [[1, -2], [3, 4]]),
        ("7,seven\n1,2\n", ("7", "seven"), [[1, 2]]),
        ('"a, b", c\n1,2', ("a, b", "c"), [[1, 2]]),
        ("\ufeffa,b\r\n1,2\r\n\r\n\r\n", ("a", "b"), [[1, 2]]),
        (" 1 , -2e3\n", None, [[1, -2000]]),
    ],
)
def test_what_is_a_header_and_what_is_not(write, read, text, names, rows):
    path = write(text)
    assert open_shards([path]).class_names == names
    assert read(path).tolist() == rows


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3\n", "line 3: expected 2 comma-separated cells as in the first line, got 1"),
        ("a,b\n1,2\n3,4,5\n", "line 3: expected 2 comma-separated cells as in the first line, got 3"),
        ("1.5,2\n\n3,4\n", "line 2 is empty"),
        ("\n1.5,2\n", "line 1 is empty"),
        ("1.5,x,2\n1,2,3\n", "line 1 mixes numbers and text .'x'"),
        ("1.5,,2\n1,2,3\n", "line 1 mixes numbers and text .''"),
        ("3,7\n1,2\n", "line 1 has only integers"),
        (",a,b\n0,1,2\n", "column 1 has no name.*index=False"),
        ("a,b,a\n0,1,2\n", "duplicate class names: a"),
        ("a,b,label,labels\n0,1,2,3\n", "both `label` and `labels`"),
        ("a,b\n", "has no rows"),
        ("\n\n", "has no rows"),
        ("1.5\n2.5\n", "must have at least 2 columns, one per class, got 1"),
        ('a,b\n"1"x,2\n', "is damaged or not a .csv file"),
        ('a,b\n"1\n",2\n', r"a\.csv, line 2: a quotation mark is not closed\. .*cells cannot span lines"),
        (b"\xff\xfe\x00a,b\n", "not a .csv file in UTF-8"),
    ],
)
def test_bad_tables_are_refused_at_opening(write, text, message):
    with pytest.raises(EnergyAlignError, match=message) as caught:
        open_shards([write(text)])
    assert "a.csv" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3,\n", r"a\.csv, line 3: a cell is empty"),
        ("a,b\n1,2\n3, \n", r"a\.csv, line 3: a cell is empty"),
        ("a,b\n1,2\n3,4\nx,5\n", r"a\.csv, line 4: expected a number, got 'x'"),
        ('a,b\n"1",2\n3,x\n', r"a\.csv, line 3: expected a number, got 'x'"),
        ("1,5;2,5\n1,5;2,5\n", r"a\.csv, line 2: expected a number, got '5;2'"),
        ("a;b,c\n1;2,3\n", "expected a number, got '1;2'. Separate cells with commas"),
        ("a,label,b\n1,cat,x\n", r"a\.csv, line 2: expected a number, got 'x'"),
    ],
)
def test_cells_that_are_no_numbers_are_refused_with_their_line(write, text, message):
    shards = open_shards([write(text)])
    with pytest.raises(EnergyAlignError, match=message):
        list(shards.blocks())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b,label\n1,2,a\n1,2,zebra\n", r"label 'zebra' at position 1"),
        ("a,b,label\n1,2,a\n1,2,\n", r"label '' at position 1"),
        ("a,b,label\n1,2,0\n1,2,0.5\n", r"label '0\.5' at position 1"),
    ],
)
def test_bad_labels_are_refused(write, text, message):
    shards = open_shards([write(text)])
    with pytest.raises(EnergyAlignError, match=message):
        _ = shards.labels


def test_numbers_as_labels_are_clear_where_name_and_index_agree(write):
    assert open_shards([write("2,1,label\n5,6,1\n5,6,0\n")]).labels.tolist() == [1, 0]


def test_a_file_that_grows_after_opening_is_refused(write):
    path = write("a,b\n1,2\n")
    shards = open_shards([path])
    with path.open("a") as stream:
        stream.write("3,4\n")
    with pytest.raises(EnergyAlignError, match=r"a\.csv changed while it was read"):
        list(shards.blocks())


def test_a_line_without_end_is_not_read_into_memory(write, monkeypatch):
    monkeypatch.setattr(csv_format, "LINE_CHARACTERS", 1000)
    path = write("")
    os.truncate(path, 2**31)
    with pytest.raises(EnergyAlignError, match=r"a\.csv must have at most 1,000 characters"):
        open_shards([path])
