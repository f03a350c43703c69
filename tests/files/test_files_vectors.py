"""Labels, counts, priors and assignments from .npy, .json and .csv files."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from energyalign import EnergyAlignError
from energyalign.files import read_assignment, read_counts, read_labels, read_names

NAMES = ("cat", "dog", "eel")


@pytest.fixture
def write(tmp_path):
    """Write text, bytes or an array to a file with the given extension."""

    def write_file(extension: str, content: object) -> Path:
        path = tmp_path / f"v.{extension}"
        if isinstance(content, np.ndarray):
            np.save(path, content)
        else:
            path.write_bytes(content if isinstance(content, bytes) else str(content).encode())
        return path

    return write_file


# Labels


@pytest.mark.parametrize(
    ("extension", "content"),
    [
        ("npy", np.array([2, 0, 1, 1])),
        ("npy", np.array([2, 0, 1, 1], dtype=np.uint8)),
        ("npy", np.array([2, 0, 1, 1], dtype=">i4")),
        ("npy", np.array([2, 0, 1, 1], dtype=np.float16)),
        ("npy", np.array(["eel", "cat", "dog", "dog"])),
        ("json", "[2, 0, 1, 1]"),
        ("json", "[2, 0.0, 1, 1]"),
        ("json", '["eel", "cat", "dog", "dog"]'),
        ("csv", "2\n0\n1\n1\n"),
        ("csv", "2.0\n0\n1\n1"),
        ("csv", "label\n2\n0\n1\n1\n"),
        ("csv", "labels\neel\ncat\ndog\ndog\n"),
        ("csv", "eel\n cat\ndog\ndog\n\n"),
    ],
)
def test_labels_as_numbers_or_names(write, extension, content):
    labels = read_labels(write(extension, content), NAMES)
    assert labels.dtype == np.int64
    assert labels.tolist() == [2, 0, 1, 1]


def test_integers_need_no_names_and_are_not_checked_against_a_range(write):
    assert read_labels(write("npy", np.array([7, -1]))).tolist() == [7, -1]


@pytest.mark.parametrize(
    ("extension", "content", "message"),
    [
        ("npy", np.array([0, 1.5]), r"label '1\.5' at position 1"),
        ("npy", np.array([0, np.nan]), "label 'nan' at position 1"),
        ("npy", np.array([np.inf, 0]), "label 'inf' at position 0"),
        ("npy", np.array([0, 1e300]), r"label '1e\+300' at position 1"),
        ("npy", np.array([0, 2**64 - 1], dtype=np.uint64), "label '18446744073709551615' at position 1"),
        ("npy", np.array([True, False]), "must hold labels, got bool"),
        ("npy", np.array([1j]), "must hold labels, got complex128"),
        ("npy", np.array([b"cat"]), r"must hold labels, got \|S3"),
        ("npy", np.zeros((2, 2), dtype=int), r"got shape \(2, 2\)"),
        ("npy", np.array([], dtype=int), "must hold one label per row of logits, got none"),
        ("npy", np.array(["cat", "zebra"]), "label 'zebra' at position 1"),
        ("npy", b"rubbish!", "not a .npy array"),
        ("json", '["cat", "zebra"]', "label 'zebra' at position 1"),
        ("json", '["cat", 1]', "label '1' at position 1"),
        ("json", "[0, true]", "label '0' at position 0|label 'True' at position 1"),
        ("json", "[0, null]", "position"),
        ("json", "[[0], [1]]", "position 0"),
        ("json", "[[0], [1, 2]]", "position 0"),
        ("json", f"[{2**70}]", f"label '{2**70}' at position 0|no type"),
        ("json", "[]", "must hold a list of class indices or of class names, got an empty list"),
        ("json", '{"a": 1}', "must hold a list of class indices or of class names, got a JSON object"),
        ("json", "3", "got a JSON number"),
        ("json", '"cat"', "got a JSON string"),
        ("json", "null", "got a JSON null"),
        ("json", "true", "got a JSON boolean"),
        ("json", "[1, 2", "damaged or not JSON"),
        ("json", "[1, NaN]", "NaN is not a JSON number"),
        ("json", b"\xff\xfe", "not JSON in UTF-8"),
        ("json", "[" * 100_000, "not JSON"),
        ("csv", "cat\nzebra\n", "label 'zebra' at position 1"),
        ("csv", "0\n1.5\n", r"label '1\.5' at position 1"),
        ("csv", "0\n\n1\n", "line 2 is empty"),
        ("csv", "0,1\n1,2\n", "must have one column, got 2"),
        ("csv", "label\n", "must hold one label per row of logits, got none"),
        ("csv", "\n\n", "must have one column, got 0"),
        ("csv", b"\xff\xff", "not a .csv file in UTF-8"),
        ("txt", "0\n1\n", r"must have the extension \.npy or \.json or \.csv"),
    ],
)
def test_bad_labels_are_refused(write, extension, content, message):
    path = write(extension, content)
    with pytest.raises(EnergyAlignError, match=message) as caught:
        read_labels(path, NAMES)
    assert f"v.{extension}" in str(caught.value)


def test_names_without_class_names_are_refused(write):
    with pytest.raises(EnergyAlignError, match=r"holds class names \('cat', 'dog'\).*columns of the logits have none"):
        read_labels(write("csv", "cat\ndog\ncat\n"))


@pytest.mark.parametrize(("extension", "content"), [("csv", "1\n2\n"), ("npy", np.array([1, 2])), ("json", "[1, 2]")])
def test_what_is_both_a_name_and_another_index_is_a_name(write, extension, content):
    path = write(extension, content)
    assert read_labels(path, ("1", "2", "3")).tolist() == [0, 1]
    assert read_labels(path, ("0", "1", "2")).tolist() == [1, 2]
    assert read_labels(path, ("2", "3", "4")).tolist() == [1, 2]  # not all are names, so none is


@pytest.mark.parametrize("header", ["species", "0", "cat"])
def test_one_line_more_than_rows_of_logits_is_a_header(write, header):
    path = write("csv", f"{header}\neel\ncat\ndog\n")
    assert read_labels(path, NAMES, 3).tolist() == [2, 0, 1]
    with pytest.raises(EnergyAlignError, match="label 'species' at position 0"):
        read_labels(write("csv", "species\neel\ncat\ndog\n"), NAMES, 4)


def test_an_index_that_pandas_wrote_is_told(write):
    with pytest.raises(EnergyAlignError, match=r"must have one column, got 2.*use index=False"):
        read_labels(write("csv", ",label\n0,cat\n1,dog\n"), NAMES)


def test_names_of_columns(write):
    assert read_names("cat, dog,eel") == NAMES
    assert read_names(str(write("json", '["cat", "dog", "eel"]'))) == NAMES
    with pytest.raises(EnergyAlignError, match="duplicate class names: cat"):
        read_names("cat,dog,cat")


@pytest.mark.parametrize("reader", [read_labels, read_counts, read_assignment])
def test_files_that_cannot_be_opened_are_refused(tmp_path, reader):
    with pytest.raises(EnergyAlignError, match=r"cannot read .*none\.json: No such file"):
        reader(tmp_path / "none.json")
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(EnergyAlignError, match=r"folder\.json is a directory"):
        reader(tmp_path / "folder.json")


# Counts and priors


@pytest.mark.parametrize(
    ("extension", "content", "names"),
    [
        ("npy", np.array([5, 0, 2]), None),
        ("npy", np.array([5, 0, 2], dtype=">f4"), None),
        ("json", "[5, 0.0, 2]", None),
        ("json", '{"cat": 5, "dog": 0, "eel": 2.0}', NAMES),
        ("csv", "5\n0\n2\n", None),
        ("csv", "count\n5\n0\n2\n", None),
        ("csv", "cat,5\ndog,0\neel,2\n", NAMES),
        ("csv", "\ufeffname,count\r\ncat,5\r\n dog , 0\r\neel,2\r\n", NAMES),
        ("csv", "7,5\n8,0\n9,2\n", ("7", "8", "9")),
    ],
)
def test_counts_with_and_without_names(write, extension, content, names):
    counts = read_counts(write(extension, content))
    if names is None:
        assert counts.dtype == np.float64
        assert counts.tolist() == [5, 0, 2]
    else:
        assert counts == dict(zip(names, [5, 0, 2], strict=True))


def test_counts_as_pandas_writes_them(tmp_path):
    pd.Series(["cat", "dog", "cat"], name="label").value_counts().to_csv(tmp_path / "v.csv")
    assert read_counts(tmp_path / "v.csv") == {"cat": 2, "dog": 1}


@pytest.mark.parametrize(
    ("extension", "content", "message"),
    [
        ("npy", np.array([1, np.nan]), r"expected a finite number >= 0 for position 1 \(counted from 0\), got nan"),
        ("npy", np.array([1, -1]), r"for position 1.*, got -1\.0"),
        ("npy", np.array([np.inf, 1]), "for position 0.*, got inf"),
        ("npy", np.array([True, False]), "must hold numbers, got bool"),
        ("npy", np.array(["a"]), "must hold numbers, got <U1"),
        ("npy", np.array([], dtype=float), "must hold one number per class, got none"),
        ("npy", np.zeros((2, 2)), r"got shape \(2, 2\)"),
        ("json", "[1, -2]", r"for position 1.*, got -2\.0"),
        ("json", '{"cat": 1, "dog": -2}', r"for class 'dog'.*, got -2\.0"),
        ("json", '{"cat": 1, "dog": "2"}', "expected a number for class 'dog', got '2'"),
        ("json", '{"cat": 1, "dog": {"a": 1}}', "expected a number for class 'dog'"),
        ("json", "[1, true]", "expected a number for class 1, got True"),
        ("json", "[1, null]", "expected a number for class 1, got None"),
        ("json", '{"cat": 1, "cat": 2}', "the key 'cat' is given twice"),
        ("json", '{"": 1, "cat": 2}', "has no name"),
        ("json", "[1, NaN]", "NaN is not a JSON number"),
        ("json", "[1, Infinity]", "Infinity is not a JSON number"),
        ("json", "[1, 1e999]", "1e999 is not a number"),
        ("json", "[1, 1" + "0" * 400 + "]", "too large"),
        ("json", "[1, 1" + "0" * 9000 + "]", "damaged or not JSON"),
        ("json", "[]", "must hold one number per class, got none"),
        ("json", "{}", "must hold one number per class, got none"),
        ("json", "5", "must hold a list of numbers, or an object from name to number, got a JSON number"),
        ("json", "{'cat': 1}", "damaged or not JSON"),
        ("csv", "nan\n1\n", "for position 0.*, got nan"),
        ("csv", "cat,1\ndog,-1\n", r"for class 'dog'.*, got -1\.0"),
        ("csv", "cat,1O\ndog,1\n", "line 1: expected a number, got '1O'"),
        ("csv", "cat,\ndog,1\n", "line 1: a cell is empty"),
        ("csv", "name,count\ncat,1\ndog,x\n", "line 3: expected a number, got 'x'"),
        ("csv", "cat,1\ncat,2\n", "duplicate class names: cat"),
        ("csv", "a,b,c\n1,2,3\n", "must have 1 to 2 columns, separated by commas, got 3"),
        ("csv", "cat,1\ndog\n", "line 2: expected 2 comma-separated cells as in the first line, got 1"),
        ("csv", "count\n", "must hold one number per class, got none"),
        ("yaml", "a: 1", r"must have the extension \.npy or \.json or \.csv"),
    ],
)
def test_bad_counts_and_priors_are_refused(write, extension, content, message):
    path = write(extension, content)
    with pytest.raises(EnergyAlignError, match=message) as caught:
        read_counts(path)
    assert f"v.{extension}" in str(caught.value)


def test_json_beyond_the_size_limit_is_not_read(write):
    path = write("json", "[")
    os.truncate(path, 2**30)
    with pytest.raises(EnergyAlignError, match=r"v\.json .*at most 268,435,456 bytes, got 1,073,741,824"):
        read_counts(path)


# Assignments


def test_an_assignment_is_a_list_of_clusters(write):
    assert read_assignment(write("json", "[0, 0, 1, 2]")) == (0, 0, 1, 2)


@pytest.mark.parametrize(
    ("extension", "content", "message"),
    [
        ("json", "[0, 1.0]", r"expected a cluster index .* at position 1 .*, got 1\.0"),
        ("json", "[0, true]", "at position 1 .*, got True"),
        ("json", "[-1]", "at position 0 .*, got -1"),
        ("json", '["a"]', "at position 0 .*, got 'a'"),
        ("json", "[]", "got an empty list"),
        ("json", '{"a": 0}', "must hold a list of cluster indices, one for each class, got a JSON object"),
        ("json", "[0, ", "not JSON"),
        ("npy", np.array([0, 1]), r"must have the extension \.json"),
    ],
)
def test_bad_assignments_are_refused(write, extension, content, message):
    path = write(extension, content)
    with pytest.raises(EnergyAlignError, match=message) as caught:
        read_assignment(path)
    assert f"v.{extension}" in str(caught.value)
