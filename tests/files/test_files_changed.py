"""Files that change between or during reads cause an error, never mixed data or a signal."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from energyalign.core.errors import CannotGoOn
from energyalign.files import open_shards, read_labels

pytestmark = pytest.mark.promise("An input that changes while it is read is detected", "changes")

LOGITS = np.random.default_rng(0).normal(size=(50, 4))
CHANGED = r"a\..* changed while it was read: stop whatever writes to it, and start again"


def write_parquet(path: Path, logits: Any) -> None:
    pq.write_table(pa.table({f"c{k}": logits[:, k] for k in range(4)}), path)


WRITERS: dict[str, Callable[[Path, Any], object]] = {
    "npy": np.save,
    "fortran.npy": lambda path, logits: np.save(path, np.asfortranarray(logits)),
    "npz": lambda path, logits: np.savez(path, logits=logits),
    "csv": lambda path, logits: np.savetxt(path, logits, "%.8f", ","),
    "parquet": write_parquet,
}


def rewrite_in_place(path: Path) -> None:
    """Write other numbers of the same size: only the modification time changes."""
    content = path.read_bytes()
    with path.open("r+b") as stream:
        stream.write(content[:-1] + bytes([content[-1] ^ 1]))
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))


def replace(path: Path) -> None:
    """Replace the file by a copy of the same size and time."""
    status, copy = path.stat(), path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))
    copy.replace(path)


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize("change", [rewrite_in_place, replace, truncate])
@pytest.mark.parametrize("kind", WRITERS)
def test_between_two_passes(tmp_path: Path, kind: str, change: Callable[[Path], None]) -> None:
    path = tmp_path / f"a.{kind}"
    WRITERS[kind](path, LOGITS)
    shards = open_shards([path])
    assert sum(map(len, shards.blocks())) == 50
    part = pickle.loads(pickle.dumps(shards.parts()[0]))  # as another process gets it
    change(path)
    for blocks in (shards.blocks(), shards.sample_blocks(), part.blocks()):
        with pytest.raises(CannotGoOn, match=CHANGED):
            list(blocks)


@pytest.mark.parametrize("change", [rewrite_in_place, truncate])
@pytest.mark.parametrize("order", ["C", "F"])
def test_between_two_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: Any, change: Callable[[Path], None]
) -> None:
    monkeypatch.setattr("energyalign.files.checks.BLOCK_BYTES", 2**20)
    path = tmp_path / "a.npy"
    np.save(path, np.asarray(np.zeros((100_000, 4)), order=order))
    blocks = open_shards([path]).blocks()
    first = next(blocks)
    change(path)
    assert not first.any()  # accessing a map of the file would fail here
    with pytest.raises(CannotGoOn, match=CHANGED):
        list(blocks)


@pytest.mark.parametrize("kind", WRITERS)
def test_another_file_for_a_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """The name points to another file only while it is opened."""
    path, other, away = (tmp_path / f"{name}.{kind}" for name in ("a", "other", "away"))
    WRITERS[kind](path, LOGITS)
    WRITERS[kind](other, LOGITS + 1)
    shards = open_shards([path])
    open_file = os.open

    def open_other(name: Any, *arguments: Any, **options: Any) -> int:
        path.rename(away)
        other.rename(path)
        try:
            return open_file(name, *arguments, **options)
        finally:
            path.rename(other)
            away.rename(path)

    monkeypatch.setattr(os, "open", open_other)
    with pytest.raises(CannotGoOn, match=CHANGED):
        list(shards.blocks())


def test_while_labels_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.arange(5))
    read = np.lib.format.read_array

    def read_and_change(*arguments: Any, **options: Any) -> Any:
        values = read(*arguments, **options)
        rewrite_in_place(path)
        return values

    monkeypatch.setattr(np.lib.format, "read_array", read_and_change)
    with pytest.raises(CannotGoOn, match=CHANGED):
        read_labels(path)
