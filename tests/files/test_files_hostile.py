"""Hostile files: pickles that run code, and bytes changed at random."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trap import Trap, pickled_trap

from energyalign import EnergyAlignError
from energyalign.files import open_shards, read_counts, read_labels


@pytest.fixture
def sprung(tmp_path):
    return tmp_path / "code-ran"


@pytest.fixture
def trap(sprung):
    array = np.empty((3, 4), dtype=object)
    array[:] = Trap(sprung)
    return array


def test_the_trap_works(tmp_path, trap, sprung):
    np.save(tmp_path / "a.npy", trap, allow_pickle=True)
    np.load(tmp_path / "a.npy", allow_pickle=True)
    assert sprung.exists()


def test_pickled_logits_are_refused_and_not_run(tmp_path, trap, sprung):
    np.save(tmp_path / "a.npy", trap, allow_pickle=True)
    np.savez(tmp_path / "a.npz", logits=trap)
    np.savez(tmp_path / "b.npz", trap)
    with pytest.raises(EnergyAlignError, match=r"a\.npy holds pickled Python objects, which are never loaded"):
        open_shards([tmp_path / "a.npy"])
    with pytest.raises(EnergyAlignError, match=r"a\.npz\['logits'\] holds pickled Python objects"):
        open_shards([tmp_path / "a.npz"])
    with pytest.raises(EnergyAlignError, match=r"b\.npz must have an array named logits"):
        open_shards([tmp_path / "b.npz"])
    assert not sprung.exists()


def test_a_bare_pickle_under_a_known_name_is_refused_and_not_run(tmp_path, sprung):
    for extension in ("npy", "npz", "parquet", "csv"):
        (tmp_path / f"a.{extension}").write_bytes(pickled_trap(sprung))
        with pytest.raises(EnergyAlignError, match=rf"a\.{extension} is damaged or not"):
            open_shards([tmp_path / f"a.{extension}"])
    assert not sprung.exists()


def test_pickled_labels_and_counts_are_refused_and_not_run(tmp_path, trap, sprung):
    np.save(tmp_path / "v.npy", trap[0], allow_pickle=True)
    for read in (read_labels, read_counts):
        with pytest.raises(EnergyAlignError, match=r"v\.npy holds pickled Python objects"):
            read(tmp_path / "v.npy")
    np.savez(tmp_path / "a.npz", logits=np.zeros((3, 4)), labels=trap[:, 0])
    with pytest.raises(EnergyAlignError, match=r"a\.npz\['labels'\] holds pickled Python objects"):
        _ = open_shards([tmp_path / "a.npz"]).labels
    assert not sprung.exists()


def samples() -> dict[str, bytes]:
    """Return a valid file of each format."""
    table = np.random.default_rng(1).normal(size=(6, 3)).astype(np.float32)
    labels = np.arange(6) % 3
    streams = {extension: io.BytesIO() for extension in (".npy", ".npz", ".parquet", ".csv")}
    np.save(streams[".npy"], table)
    np.savez_compressed(streams[".npz"], logits=table, labels=labels)
    columns = {name: table[:, index] for index, name in enumerate("abc")}
    pq.write_table(pa.table({**columns, "label": labels}), streams[".parquet"])
    np.savetxt(streams[".csv"], table, delimiter=",", header="a,b,c", comments="")
    return {extension: stream.getvalue() for extension, stream in streams.items()}


SAMPLES = samples()


@pytest.mark.parametrize("extension", sorted(SAMPLES))
@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_bytes_changed_at_random_are_read_or_refused_and_nothing_else(extension, data):
    content = bytearray(SAMPLES[extension])
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    del content[data.draw(st.one_of(st.just(len(content)), st.integers(0, len(content)))) :]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"a{extension}"
        path.write_bytes(content)
        try:
            shards = open_shards([path])
            assert sum(len(block) for block in shards.blocks()) == shards.n_rows
            _ = shards.labels
        except EnergyAlignError as error:
            assert f"a{extension}" in str(error)  # noqa: PT017 (it may as well not raise)
