"""Files that state, or unpack to, unreasonable sizes are refused before memory is allocated."""

from __future__ import annotations

import gzip
import io
import os
import resource
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from energyalign.core._io import strict_json
from energyalign.core.errors import EnergyAlignError
from energyalign.core.shifts import Shifts
from energyalign.experiments.data.manifest import Manifest
from energyalign.experiments.data.sources import open_source
from energyalign.experiments.data.sources.fashion import read_idx
from energyalign.experiments.train.checkpoint import newest_checkpoint
from energyalign.experiments.train.run_directory import RunDirectory
from energyalign.experiments.train.tensor_file import load_arrays
from energyalign.files import open_shards, read_labels
from energyalign.files.npz import read_arrays

pytestmark = pytest.mark.promise("A hostile file cannot run code, escape its folder or exhaust memory", "hostile files")

GIGABYTE = 2**30
TEXTS: dict[str, Callable[[Path], object]] = {
    "shifts.json": Shifts.load,
    "manifest.json": Manifest.load,
    "config.json": lambda path: RunDirectory(path.parent).read_json(path.name),
    "commands.txt": lambda path: RunDirectory(path.parent).read_commands(),
}


@pytest.mark.parametrize("name", TEXTS)
def test_texts(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    os.truncate(tmp_path / name, GIGABYTE)  # sparse: takes no room on the disk
    with pytest.raises(EnergyAlignError, match=rf"{name}.*at most 268,435,456 bytes, got 1,073,741,824"):
        TEXTS[name](tmp_path / name)


def test_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strict_json, "MAX_BYTES", 100)
    RunDirectory(tmp_path).write_rows([{}] * 50)  # in all they may be more
    assert len(RunDirectory(tmp_path).read_rows()) == 50
    (tmp_path / "rows.jsonl").write_text("{}\n" + " " * 101)
    with pytest.raises(EnergyAlignError, match=r"rows\.jsonl cannot be read: it has a line of more than 100 char"):
        RunDirectory(tmp_path).read_rows()


@pytest.mark.parametrize(
    ("length", "message"),
    [
        (2**24 + 1, "its header must have at most 16,777,216 bytes, got 16,777,217"),
        (2**63, "at most 16,777,216 bytes, got 9,223,372,036,854,775,808"),
        (1000, "its header should have 1,000 bytes, but the whole file has 108"),
    ],
)
def test_headers_of_safetensors(tmp_path: Path, length: int, message: str) -> None:
    path = tmp_path / "epoch-00001-batch-000000.safetensors"
    path.write_bytes(struct.pack("<Q", length) + b"{" + bytes(99))
    for read in (load_arrays, lambda path: newest_checkpoint(path.parent, "")):
        with pytest.raises(EnergyAlignError, match=rf"000000\.safetensors.*{message}"):
            read(path)


def npz(path: Path, **members: tuple[str, tuple[int, ...]]) -> Path:
    """Write an archive of zeros with these types and shapes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, (kind, shape) in members.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                header = {"descr": kind, "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(stream, header)
                left = int(np.prod(shape)) * np.dtype(kind).itemsize
                for size in (min(2**20, left - first) for first in range(0, left, 2**20)):
                    stream.write(bytes(size))
    return path


def test_arrays_that_unpack_to_much_more_than_the_archive(tmp_path: Path) -> None:
    path = npz(tmp_path / "a.npz", logits=("<f4", (8, 2)), labels=("<i8", (5_000_000,)))
    with pytest.raises(EnergyAlignError, match=r"a\.npz\['labels'\] unpacks to 40,000,128 bytes, but the limit"):
        _ = open_shards([path]).labels
    with pytest.raises(EnergyAlignError, match=r"a\.npz unpacks to 40,000,320 bytes"):
        read_arrays(path)
    with pytest.raises(EnergyAlignError, match=r"a row of .*b\.npz\['logits'\] unpacks to 40,000,000 bytes"):
        open_shards([npz(tmp_path / "b.npz", logits=("<f4", (1, 10_000_000)))])


def test_an_archive_that_unpacks_to_much_but_can_be_streamed(tmp_path: Path) -> None:
    shards = open_shards([npz(tmp_path / "a.npz", logits=("<f4", (5_000_000, 2)))])
    assert max(block.nbytes for block in shards.blocks()) <= 16 * 2**20


@pytest.mark.parametrize("kind", ["<U0", "|S0", "|V0"])
def test_a_type_of_no_size(tmp_path: Path, kind: str) -> None:
    with (tmp_path / "a.npy").open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, {"descr": kind, "fortran_order": False, "shape": (10**12,)})
    with pytest.raises(EnergyAlignError, match=r"a\.npy must hold numbers, got the empty type"):
        read_labels(tmp_path / "a.npy")


def test_one_long_label_among_many_short_ones(tmp_path: Path) -> None:
    """NumPy would give every label the width of the longest: 40 GB."""
    long = "x" * 100_000
    (tmp_path / "labels.csv").write_text("label\n" + "a\n" * 100_000 + long)
    labels = read_labels(tmp_path / "labels.csv", ["a", long])
    assert (labels[:-1] == 0).all()
    assert labels[-1] == 1
    (tmp_path / "a.csv").write_text("a,b,label\n" + "1.5,2.5,a\n" * 100_000 + f"1.5,2.5,{long}\n")
    with pytest.raises(EnergyAlignError, match=r"a\.csv: label 'xxxx"):
        _ = open_shards([tmp_path / "a.csv"]).labels


def test_a_line_of_too_many_cells(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1," * 2**21 + "1\n")
    with pytest.raises(EnergyAlignError, match=r"a\.csv must have at most 2,097,152 cells"):
        open_shards([tmp_path / "a.csv"])


def test_a_quotation_mark_that_is_never_closed(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('a,b\n"1,2\n' + "3,4\n" * 1000)
    with pytest.raises(EnergyAlignError, match=r"a\.csv, line 2: a quotation mark is not closed"):
        open_shards([tmp_path / "a.csv"])


def test_a_page_of_parquet_that_claims_to_be_large(tmp_path: Path) -> None:
    """pyarrow reserves the stated size of a page before it detects the error; the memory is never used."""
    path = tmp_path / "a.parquet"
    table = pa.table({"label": ["x" * 100_000] * 20, "a": [0.5] * 20, "b": [1.5] * 20})
    pq.write_table(table, path, compression="snappy", use_dictionary=False)
    content = bytearray(path.read_bytes())
    # A page header begins with its kind and its uncompressed size, which has four bytes here.
    assert content[4:7] == b"\x15\x00\x15"
    assert [byte > 127 for byte in content[7:11]] == [True, True, True, False]
    content[7:11] = b"\xfe\xff\xff\x7f"
    path.write_bytes(content)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(EnergyAlignError, match=r"a\.parquet is damaged"):
        _ = open_shards([path]).labels
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 * 1024


def write_zeros(path: Path) -> Path:
    """Write two columns of 40 MB of zeros each, in a few kilobytes."""
    table = pa.table({"a": np.zeros(5_000_000), "b": np.zeros(5_000_000)})
    pq.write_table(table, path, compression="zstd", use_dictionary=False, row_group_size=5_000_000)
    return path


def test_parquet_that_unpacks_to_much_but_page_by_page(tmp_path: Path) -> None:
    shards = open_shards([write_zeros(tmp_path / "a.parquet")])
    assert sum(len(block) for block in shards.blocks()) == 5_000_000


def test_a_page_of_parquet_that_unpacks_to_much(tmp_path: Path) -> None:
    """A value is never divided, however long it is: the page has 40 MB."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [0.5], "b": [1.5], "label": ["x" * 40_000_000]}), path, compression="zstd")
    with pytest.raises(EnergyAlignError, match=r"a part of .*a\.parquet unpacks to [\d,]{10,} bytes"):
        open_shards([path])


def test_parquet_that_states_much_and_kills_who_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the child process dies."""
    (tmp_path / "dies.py").write_text("import os\nos.abort()\n")
    monkeypatch.setattr("energyalign.files.parquet_trial.__file__", str(tmp_path / "dies.py"))
    with pytest.raises(
        EnergyAlignError, match=r"a\.parquet is damaged, .*a trial read ended with code -6.*Write it again"
    ):
        open_shards([write_zeros(tmp_path / "a.parquet")])


def test_one_text_for_many_rows_of_parquet(tmp_path: Path) -> None:
    n_rows, long = 200_000, "x" * 100_000
    texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n_rows, np.int32)), pa.array([long]))
    pq.write_table(pa.table({"a": np.zeros(n_rows), "b": np.zeros(n_rows), "label": texts}), tmp_path / "a.parquet")
    with pytest.raises(EnergyAlignError, match="label 'xxxx"):  # 20 GB if every row had a copy
        _ = open_shards([tmp_path / "a.parquet"]).labels


def test_one_image_for_many_rows_of_parquet(tmp_path: Path) -> None:
    images = pa.array([{"bytes": bytes(200_000)}] * 1000, pa.struct([("bytes", pa.binary())]))
    pq.write_table(pa.table({"image": images, "label": [0, 1] * 500}), tmp_path / "train-0.parquet")
    assert (tmp_path / "train-0.parquet").stat().st_size < 10**6
    with pytest.raises(EnergyAlignError, match=r"train-0\.parquet unpacks to [\d,]+ bytes"):
        open_source(f"parquet:{tmp_path}").load("train")


def test_idx_files_that_unpack_to_much_more(tmp_path: Path) -> None:
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(struct.pack(">HBB3I", 0, 8, 3, 60_000, 28, 28) + bytes(60_000 * 784)))
    with pytest.raises(EnergyAlignError, match=r"ubyte\.gz is not a complete idx file .*unpacks to 47,040,000 bytes"):
        read_idx(path, 3)


def picture(form: str, size: tuple[int, int]) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (8, 8)).save(stream, form)
    content = bytearray(stream.getvalue())
    if form == "PNG":
        content[16:24] = struct.pack(">II", *size)
        content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))
    elif form == "BMP":
        content[18:26] = struct.pack("<ii", *size)
    else:
        assert content[12:16] == b"VP8 "
        content[26:30] = struct.pack("<HH", *size)
    return bytes(content)


@pytest.mark.parametrize("form", ["PNG", "BMP", "WEBP"])
def test_pictures_that_claim_to_be_large(tmp_path: Path, form: str) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for number in range(2):
            (tmp_path / name / f"{number}.{form.lower()}").write_bytes(picture(form, (9000, 9000)))
    train = open_source(f"folder:{tmp_path}").load("train")
    with pytest.raises(EnergyAlignError, match=r"its header says 9,000 x 9,000 pixels, .* is 4,194,304 pixels"):
        train.read(0)


def test_a_jpeg_of_many_scans(tmp_path: Path) -> None:
    """Each takes ten bytes, and time for four million pixels."""
    stream = io.BytesIO()
    Image.new("RGB", (2000, 2000)).save(stream, "JPEG", progressive=True)
    scan = b"\xff\xda\x00\x08\x01\x01\x00\x01\x3f\x00\x00"
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for number in range(2):
            content = stream.getvalue()[:-2] + 600 * scan + b"\xff\xd9"
            (tmp_path / name / f"{number}.jpg").write_bytes(content)
    train = open_source(f"folder:{tmp_path}").load("train")
    with pytest.raises(EnergyAlignError, match=r"it is a JPEG of 6\d\d scans, of which at most 500 are decoded"):
        train.read(0)
