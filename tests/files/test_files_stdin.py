"""Logits from standard input, in every format, and their temporary copy."""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from energyalign import EnergyAlignError
from energyalign.files import open_shards


def encode(logits: np.ndarray, extension: str) -> bytes:
    stream = io.BytesIO()
    match extension:
        case "npy":
            np.save(stream, logits)
        case "npz":
            np.savez(stream, logits=logits)
        case "parquet":
            pq.write_table(pa.table({f"c{index}": column for index, column in enumerate(logits.T)}), stream)
        case "csv":
            np.savetxt(stream, logits, delimiter=",")
    return stream.getvalue()


@pytest.fixture
def pipe_in(monkeypatch):
    def set_stdin(content: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return set_stdin


@pytest.mark.parametrize("extension", ["npy", "npz", "parquet", "csv"])
def test_every_format_is_recognised_and_read_again(logits, read, pipe_in, extension):
    pipe_in(encode(logits, extension))
    np.testing.assert_array_equal(read("-").astype(np.float32), logits)


def test_standard_input_is_a_shard_among_others(tmp_path, logits, read, pipe_in):
    np.save(tmp_path / "a.npy", logits)
    pipe_in(encode(logits * 2, "npy"))
    np.testing.assert_array_equal(
        read(tmp_path / "a.npy", "-", tmp_path / "a.npy"), np.concatenate([logits, logits * 2, logits])
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "standard input is empty"),
        (b"\x93NUMPY", "standard input is damaged or not a .npy array"),
        (b"PK\x03\x04 no more", "standard input is damaged or not a .npz archive"),
        (b"PAR1 no more", "standard input is damaged or not a .parquet file"),
        (b"\x80\x04\x95 a pickle", "standard input is damaged or not a .csv file"),
        (b"1.5,2\n3\n", "standard input, line 2: expected 2 comma-separated cells"),
    ],
)
def test_bad_input_is_refused(pipe_in, content, message):
    pipe_in(content)
    with pytest.raises(EnergyAlignError, match=message):
        open_shards(["-"])


def test_standard_input_can_be_given_once(pipe_in):
    pipe_in(b"1.5,2\n")
    with pytest.raises(EnergyAlignError, match="`-` must be given at most once"):
        open_shards(["-", "-"])


def test_closed_standard_input_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(EnergyAlignError, match="standard input is closed"):
        open_shards(["-"])


def test_a_full_disk_is_reported_as_such(pipe_in, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere/at/all")
    pipe_in(b"1.5,2\n")
    with pytest.raises(EnergyAlignError, match=r"temporary copy of standard input: No such file.*TMPDIR"):
        open_shards(["-"])


def test_the_copy_is_removed_with_the_shards(tmp_path, monkeypatch, pipe_in):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    pipe_in(b"1.5,2\n")
    shards = open_shards(["-"])
    assert len(list(tmp_path.iterdir())) == 1
    assert next(shards.blocks()).tolist() == [[1.5, 2.0]]
    del shards
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ending", ["pass", "raise SystemExit(3)", "raise KeyError"])
def test_the_copy_is_removed_at_exit(tmp_path, ending):
    code = (
        "import os, tempfile\n"
        "from energyalign.files import open_shards\n"
        "shards = open_shards(['-'])\n"
        "assert len(os.listdir(tempfile.gettempdir())) == 1\n"
        f"{ending}\n"
    )
    environment = {"TMPDIR": str(tmp_path), "PYTHONPATH": ":".join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", code], input=b"1.5,2\n", env=environment, capture_output=True, check=False
    )
    assert b"AssertionError" not in done.stderr
    assert done.returncode == {"pass": 0, "raise SystemExit(3)": 3, "raise KeyError": 1}[ending]
    assert not list(tmp_path.iterdir())
