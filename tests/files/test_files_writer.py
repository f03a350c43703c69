"""Tables and vectors written block by block, read back by NumPy, pandas and pyarrow."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from energyalign import EnergyAlignError
from energyalign.files import matrix_writer, open_shards, read_labels

NAMES = ("ant", "bee, too", "cat", "dog", "eel")


def write(path, table, *, dtype=None, class_names=None, step=7):
    n_columns = None if table.ndim == 1 else table.shape[1]
    with matrix_writer(path, len(table), n_columns, dtype or table.dtype, class_names) as writer:
        for first in range(0, len(table), step):
            writer.write(table[first : first + step])


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_is_what_numpy_would_save(tmp_path, logits, dtype, order):
    table = np.array(logits, dtype=dtype, order=order)
    write(tmp_path / "a.npy", table)
    native = table.astype(np.dtype(dtype).newbyteorder("="), order="C")
    np.save(tmp_path / "b.npy", native)
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()


def test_npy_of_blocks_that_are_written_in_pieces(tmp_path, logits, monkeypatch):
    monkeypatch.setattr("energyalign.files.writer._WRITE_BYTES", 7)
    write(tmp_path / "a.npy", logits)
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), logits)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("names", [None, NAMES])
def test_csv_gives_the_same_numbers_to_numpy(tmp_path, logits, dtype, names):
    table = logits.astype(dtype)
    table[0, :3] = np.inf, -np.inf, np.nan
    write(tmp_path / "a.csv", table, class_names=names)
    found = np.loadtxt(tmp_path / "a.csv", delimiter=",", skiprows=0 if names is None else 1)
    np.testing.assert_array_equal(found.astype(dtype), table)
    if names is not None:
        assert tuple(pd.read_csv(tmp_path / "a.csv").columns) == names


def test_csv_takes_few_digits(tmp_path):
    write(tmp_path / "a.csv", np.array([[0.1, -2.5]], dtype=np.float32))
    assert (tmp_path / "a.csv").read_bytes() == b"0.1,-2.5\n"


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("names", [None, NAMES])
def test_parquet_gives_the_same_numbers_to_pyarrow(tmp_path, logits, dtype, names):
    table = np.asfortranarray(logits.astype(dtype))
    write(tmp_path / "a.parquet", table, class_names=names)
    found = pq.read_table(tmp_path / "a.parquet")
    if names is None:
        assert found.column_names == ["logits"]
        np.testing.assert_array_equal(np.array(found["logits"].to_pylist(), dtype=dtype), table)
    else:
        assert tuple(found.column_names) == names
        np.testing.assert_array_equal(found.to_pandas().to_numpy(), table)


@pytest.mark.parametrize("extension", ["npy", "csv", "parquet"])
@pytest.mark.parametrize("names", [None, NAMES])
def test_what_is_written_is_read_again(tmp_path, logits, read, extension, names):
    path = tmp_path / f"a.{extension}"
    write(path, logits, class_names=names)
    np.testing.assert_array_equal(read(path).astype(np.float32), logits)
    assert open_shards([path]).class_names == (None if extension == "npy" else names)


@pytest.mark.parametrize("extension", ["npy", "csv"])
def test_a_vector_of_labels(tmp_path, extension):
    labels = np.array([3, 1, 2, 0] * 5)
    write(tmp_path / f"a.{extension}", labels)
    np.testing.assert_array_equal(read_labels(tmp_path / f"a.{extension}"), labels)
    if extension == "npy":
        np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), labels)


def test_blocks_are_converted_within_their_kind_only(tmp_path, logits):
    write(tmp_path / "a.npy", logits.astype(np.float64), dtype=np.float32)
    assert np.load(tmp_path / "a.npy").dtype == np.float32
    with pytest.raises(TypeError, match="same_kind"):
        write(tmp_path / "b.npy", logits, dtype=np.int64)
    assert not (tmp_path / "b.npy").exists()


def test_a_file_can_be_corrected_in_place(tmp_path, logits):
    np.save(tmp_path / "a.npy", logits)
    shards = open_shards([tmp_path / "a.npy"])
    with matrix_writer(tmp_path / "a.npy", shards.n_rows, shards.n_classes, shards.dtype) as writer:
        for block in shards.blocks():
            writer.write(block + 1)
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), logits + 1)


@pytest.mark.parametrize("extension", ["npy", "csv", "parquet"])
@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([np.zeros((2, 3))], "expected 4 rows, got 2"),
        ([], "expected 4 rows, got 0"),
        ([np.zeros((2, 3)), np.zeros((3, 3))], "expected 4 rows, got more"),
        (
            [np.zeros((2, 3)), np.zeros((2, 4))],
            r"expected blocks of an array of shape \(4, 3\), got shape \(2, 4\)",
        ),
        ([np.zeros((2, 3)), np.zeros(3)], r"got shape \(3,\)"),
        ([np.zeros((2, 3)), RuntimeError("half way")], "half way"),
        ([np.zeros((2, 3)), KeyboardInterrupt("half way")], "half way"),
    ],
)
def test_a_failure_half_way_leaves_the_old_file_and_no_other(tmp_path, extension, blocks, message):
    path = tmp_path / f"a.{extension}"
    path.write_bytes(b"old")

    def run():
        with matrix_writer(path, 4, 3, np.float64) as writer:
            for block in blocks:
                if isinstance(block, BaseException):
                    raise block
                writer.write(block)

    with pytest.raises((EnergyAlignError, RuntimeError, KeyboardInterrupt), match=message):
        run()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize(
    ("name", "n_columns", "dtype", "names", "message"),
    [
        ("a.txt", 3, "f4", None, r"must have the extension \.npy or \.csv or \.parquet"),
        ("a.npz", 3, "f4", None, r"got \.npz"),
        ("a.parquet", None, "i8", None, r"a\.parquet: labels can only be written to a \.npy or \.csv file"),
        ("a.parquet", 3, "c16", None, "Parquet has no type for complex128"),
        ("a.csv", 3, "f4", ("a", "b"), "expected 3 class names, got 2"),
        ("folder.npy", 3, "f4", None, r"folder\.npy is a directory"),
        ("none/a.npy", 3, "f4", None, r"cannot write .*none/a\.npy: No such file"),
    ],
)
def test_bad_targets_are_refused_before_anything_is_written(tmp_path, name, *, n_columns, dtype, names, message):
    (tmp_path / "folder.npy").mkdir()
    with pytest.raises(EnergyAlignError, match=message):
        matrix_writer(tmp_path / name, 4, n_columns, dtype, names).__enter__()
    assert os.listdir(tmp_path) == ["folder.npy"]


def test_without_pyarrow_nothing_is_written(tmp_path, monkeypatch):
    for module in ("pyarrow", "pyarrow.parquet", "pyarrow.compute"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(EnergyAlignError, match=r"pip install 'energyalign\[parquet\]'"):
        matrix_writer(tmp_path / "a.parquet", 4, 3, "f4").__enter__()
    assert not os.listdir(tmp_path)


def test_a_dash_is_npy_on_standard_output(logits, capfdbinary, monkeypatch):
    with os.fdopen(os.dup(1), "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        write("-", logits)
    np.testing.assert_array_equal(np.load(io.BytesIO(capfdbinary.readouterr().out)), logits)


def test_a_reader_that_hangs_up_is_one_error():
    code = (
        "import numpy as np\n"
        "from energyalign import EnergyAlignError\n"
        "from energyalign.files import matrix_writer\n"
        "try:\n"
        "    with matrix_writer('-', 1 << 20, 2, 'f8') as writer:\n"
        "        for _ in range(1 << 10):\n"
        "            writer.write(np.zeros((1 << 10, 2)))\n"
        "except EnergyAlignError as error:\n"
        "    import os, sys\n"
        "    print(error, file=sys.stderr)\n"
        "    os._exit(7)\n"
    )
    environment = {"PYTHONPATH": ":".join(filter(None, sys.path))}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1000)
        process.stdout.close()
        message = process.stderr.read()
        assert process.wait() == 7
    assert b"cannot write to standard output: Broken pipe" in message


def test_a_terminal_or_nothing_as_standard_output_is_refused(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stdout, message in ((Terminal(), "to a terminal"), (None, "standard output is closed")):
        monkeypatch.setattr(sys, "stdout", stdout)
        with pytest.raises(EnergyAlignError, match=message):
            matrix_writer("-", 1, 2, "f4").__enter__()
