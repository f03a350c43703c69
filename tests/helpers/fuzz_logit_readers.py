"""Readers of logits, labels, counts, priors, clusters and shifts for fuzzing."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import types
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from fuzz_reader import PARQUET_PAGES, Reader

from energyalign.core._io.shifts_json import dump, seal
from energyalign.core.evidence import Evidence
from energyalign.core.fitting import fit_shifts
from energyalign.core.shifts import Shifts
from energyalign.files import open_shards, read_assignment, read_counts, read_labels

_TABLE = np.random.default_rng(0).normal(size=(12, 3))
_LABELS = np.arange(12) % 3
_NAMES = ("cat", "dog", "eel")


def _bytes_of(write: Callable[[Any], object]) -> bytes:
    stream = io.BytesIO()
    write(stream)
    return stream.getvalue()


def _npy(array: Any) -> bytes:
    return _bytes_of(lambda stream: np.save(stream, array))


def _parquet(columns: dict[str, Any], **options: Any) -> bytes:
    return _bytes_of(lambda stream: pq.write_table(pa.table(columns), stream, **options))


def _npy_tables() -> list[bytes]:
    return [_npy(_TABLE), _npy(np.asfortranarray(_TABLE.astype(np.float32))), _npy(_TABLE.astype(">f2"))]


def _npz_tables() -> list[bytes]:
    plain, fortran = _TABLE.astype(np.float32), np.asfortranarray(_TABLE)
    return [
        _bytes_of(lambda stream: np.savez_compressed(stream, logits=plain, labels=_LABELS)),
        _bytes_of(lambda stream: np.savez(stream, plain)),
        _bytes_of(lambda stream: np.savez(stream, logits=fortran, label=_LABELS.astype(np.int8))),
    ]


def _parquet_tables() -> list[bytes]:
    columns = {name: _TABLE[:, k] for k, name in enumerate(_NAMES)}
    words = pa.array(np.array(_NAMES)[_LABELS]).dictionary_encode()
    lists = pa.array(_TABLE.astype(np.float32).tolist(), pa.list_(pa.float32()))
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(_TABLE.ravel()), 3)
    return [
        _parquet({**columns, "label": _LABELS}),
        _parquet({**columns, "label": words}, compression="zstd"),
        _parquet({"logits": lists, "labels": _LABELS}, use_dictionary=False, compression="none"),
        _parquet({"logits": fixed}, row_group_size=5, data_page_version="2.0"),
    ]


def _csv_tables() -> list[bytes]:
    rows = [",".join(f"{value:.3f}" for value in row) for row in _TABLE]
    labelled = [f"{row},{_NAMES[k]}" for row, k in zip(rows, _LABELS, strict=True)]
    header = ",".join(_NAMES)
    return ["\n".join(lines).encode() for lines in (rows, [header, *rows], ['"cat",dog,eel,label', *labelled])]


def _read_shards(path: str | Path) -> None:
    shards = open_shards([path])
    for block in chain(shards.blocks(), *(part.blocks() for part in shards.parts())):
        assert block.shape[1] == shards.n_classes
    labels = shards.labels
    assert labels is None or len(labels) == shards.n_rows


def _read_stdin(folder: Path) -> None:
    before = sys.stdin
    with (folder / "piped").open("rb") as stream:
        sys.stdin = types.SimpleNamespace(buffer=stream, closed=False)  # type: ignore[assignment]
        try:
            _read_shards("-")
        finally:
            sys.stdin = before


def _only(path: str, contents: list[bytes], read: Callable[[Path], object], reserved: int = 0) -> Callable[[], Reader]:
    """Make a reader of a single file."""
    samples = [{path: one} for one in contents]
    return lambda: Reader(lambda folder: read(folder / path), samples, named=path, reserved=reserved)


def _any_of(contents: dict[str, list[bytes]], read: Callable[[Path], object]) -> Callable[[], Reader]:
    """Make a reader of a single file that may have one of several extensions."""
    samples = [{f"a.{extension}": one} for extension, several in contents.items() for one in several]
    return lambda: Reader(lambda folder: read(next(folder.glob("a.*"))), samples, named="a.")


def _json(*values: object) -> list[bytes]:
    return [json.dumps(value).encode() for value in values]


def _vectors(values: list[float]) -> dict[str, list[bytes]]:
    named = dict(zip(_NAMES, values, strict=True))
    lines = "\n".join(f"{name},{value}" for name, value in named.items())
    return {"npy": [_npy(np.array(values))], "json": _json(values, named), "csv": [f"class,count\n{lines}\n".encode()]}


def _shifts() -> Reader:
    evidence = Evidence.from_arrays(_TABLE, _LABELS, counts=[50, 20, 5], class_names=_NAMES)
    fitted = fit_shifts(evidence)
    return Reader(
        lambda folder: dump(_load_sealed(folder / "shifts.json")), [{"shifts.json": dump(fitted).encode()}],
        named="shifts.json",
    )  # fmt: skip


def _load_sealed(path: Path) -> Shifts:
    """Load shifts after fixing their checksum, so that fuzzing reaches the code behind it."""
    with contextlib.suppress(ValueError, RecursionError):
        document = json.loads(path.read_bytes())
        if isinstance(document, dict) and "sha256" in document:
            path.write_text(seal(json.dumps(document | {"sha256": ""})))
    return Shifts.load(path)


_LABEL_FILES = {
    "npy": [_npy(_LABELS), _npy(_LABELS.astype(np.float32)), _npy(np.array(_NAMES)[_LABELS])],
    "json": _json(_LABELS.tolist(), [_NAMES[k] for k in _LABELS]),
    "csv": [b"label\ncat\ndog\neel\ncat\n", b"0\n1\n2\n2\n1\n"],
}

READERS: dict[str, Callable[[], Reader]] = {
    "logits.npy": _only("a.npy", _npy_tables(), _read_shards),
    "logits.npz": _only("a.npz", _npz_tables(), _read_shards),
    "logits.parquet": _only("a.parquet", _parquet_tables(), _read_shards, PARQUET_PAGES),
    "logits.csv": _only("a.csv", _csv_tables(), _read_shards),
    "standard input": lambda: Reader(
        _read_stdin,
        [{"piped": one} for one in (*_npy_tables(), *_npz_tables(), *_parquet_tables()[:1], *_csv_tables())],
        named="standard input",
        reserved=PARQUET_PAGES,
    ),
    "labels": _any_of(_LABEL_FILES, lambda path: read_labels(path, _NAMES)),
    "counts": _any_of(_vectors([50, 20, 5]), read_counts),
    "priors": _any_of(_vectors([0.5, 0.25, 0.25]), read_counts),
    "clusters": _any_of({"json": _json([0, 0, 1, 2, 1])}, read_assignment),
    "shifts.json": _shifts,
}
