"""Many shards as one table, and errors that do not depend on the format."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from energyalign import EnergyAlignError
from energyalign.files import open_shards


def test_shards_of_all_formats_are_one_table_in_the_given_order(tmp_path, logits, read):
    names = ["a", "b", "c", "d", "e"]
    np.save(tmp_path / "1.npy", logits[:4])
    np.savez_compressed(tmp_path / "2.npz", logits=logits[4:9].astype(np.float64))
    pd.DataFrame(logits[9:15], columns=names).to_parquet(tmp_path / "3.parquet")
    pd.DataFrame(logits[15:], columns=names).to_csv(tmp_path / "4.CSV", index=False)
    paths = [str(tmp_path / "1.npy"), tmp_path / "2.npz", tmp_path / "3.parquet", tmp_path / "4.CSV"]
    np.testing.assert_array_equal(read(*paths).astype(np.float32), logits)
    shards = open_shards(paths)
    assert shards.class_names == tuple(names)
    assert (shards.n_rows, shards.n_classes, shards.dtype) == (23, 5, np.float64)
    assert [block.dtype.itemsize for block in shards.blocks()] == [4, 8, 4, 8]


def test_many_shards(tmp_path, logits, read, small_blocks):
    for index in range(23):
        np.save(tmp_path / f"{index}.npy", logits[index : index + 1])
    paths = [tmp_path / f"{index}.npy" for index in range(23)]
    np.testing.assert_array_equal(read(*paths), logits)
    assert all(block.nbytes <= small_blocks for block in open_shards(paths).blocks())


def test_two_walks_at_once_do_not_disturb_each_other(tmp_path, logits, small_blocks):
    assert small_blocks
    np.save(tmp_path / "a.npy", logits)
    shards = open_shards([tmp_path / "a.npy"])
    pairs = list(zip(shards.blocks(), shards.blocks(), strict=True))
    assert len(pairs) == 5
    assert all(np.array_equal(one, other) for one, other in pairs)


def test_a_walk_that_is_given_up_leaves_nothing_behind(tmp_path, logits, read, small_blocks):
    assert small_blocks
    np.save(tmp_path / "a.npy", logits)
    open_files = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else None
    shards = open_shards([tmp_path / "a.npy"])
    walk = shards.blocks()
    next(walk)
    walk.close()
    if open_files is not None:
        assert len(os.listdir("/proc/self/fd")) == open_files
    np.testing.assert_array_equal(read(tmp_path / "a.npy"), logits)


def test_blocks_outlive_their_walk(tmp_path, logits):
    np.save(tmp_path / "a.npy", logits)
    block = next(open_shards([tmp_path / "a.npy"]).blocks())
    (tmp_path / "a.npy").unlink()
    np.testing.assert_array_equal(block, logits)


def test_labels_of_all_shards_in_order(tmp_path, logits):
    names = ["a", "b", "c", "d", "e"]
    pd.DataFrame(logits[:2], columns=names).assign(label=["e", "b"]).to_csv(tmp_path / "1.csv", index=False)
    np.savez(tmp_path / "2.npz", logits=logits[2:5], labels=[3, 0, 2])
    pd.DataFrame(logits[5:7], columns=names).assign(labels=["c", "a"]).to_parquet(tmp_path / "3.parquet")
    labels = open_shards([tmp_path / "1.csv", tmp_path / "2.npz", tmp_path / "3.parquet"]).labels
    assert labels is not None
    assert labels.dtype == np.int64
    assert labels.tolist() == [4, 1, 3, 0, 2, 2, 0]


def test_labels_in_some_shards_only_are_refused(tmp_path, logits):
    np.savez(tmp_path / "1.npz", logits=logits, labels=np.zeros(23, dtype=int))
    np.save(tmp_path / "2.npy", logits)
    shards = open_shards([tmp_path / "1.npz", tmp_path / "2.npy"])
    with pytest.raises(EnergyAlignError, match=r"some shards have labels, but these have none: .*2\.npy\."):
        _ = shards.labels


def test_shards_with_different_numbers_of_classes_are_refused(tmp_path):
    np.save(tmp_path / "1.npy", np.zeros((3, 4)))
    np.save(tmp_path / "2.npy", np.zeros((3, 5)))
    with pytest.raises(EnergyAlignError, match=r"2\.npy has 5 class columns, but .*1\.npy has 4"):
        open_shards([tmp_path / "1.npy", tmp_path / "2.npy"])


@pytest.mark.parametrize("second", ["a,c,b", "a,b,d"])
def test_shards_with_different_class_names_are_refused(tmp_path, second):
    (tmp_path / "1.csv").write_text("a,b,c\n1,2,3\n")
    (tmp_path / "2.csv").write_text(f"{second}\n1,2,3\n")
    np.save(tmp_path / "0.npy", np.zeros((3, 3)))
    with pytest.raises(EnergyAlignError, match=r"2\.csv calls class [12] '[cd]', but .*1\.csv calls it '[bc]'"):
        open_shards([tmp_path / "0.npy", tmp_path / "1.csv", tmp_path / "2.csv"])


@pytest.mark.parametrize("extension", ["npy", "npz", "parquet", "csv"])
def test_files_that_cannot_be_opened_are_refused(tmp_path, extension):
    path = tmp_path / f"a.{extension}"
    with pytest.raises(EnergyAlignError, match=rf"cannot read .*a\.{extension}: No such file"):
        open_shards([path])
    path.write_bytes(b"")
    with pytest.raises(EnergyAlignError, match=rf"a\.{extension} is empty"):
        open_shards([path])
    path.unlink()
    path.mkdir()
    with pytest.raises(EnergyAlignError, match=rf"a\.{extension} is a directory"):
        open_shards([path])
    path.rmdir()
    os.mkfifo(path)
    with pytest.raises(EnergyAlignError, match=rf"a\.{extension} cannot be read: it is not a regular file: save its"):
        open_shards([path])
    path.unlink()
    path.symlink_to(path)
    with pytest.raises(EnergyAlignError, match=rf"cannot read .*a\.{extension}: .*symbolic links"):
        open_shards([path])


@pytest.mark.parametrize("extension", ["npy", "npz", "parquet", "csv"])
def test_files_without_permission_are_refused(extension):
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = Path(folder) / f"a.{extension}"
        path.write_bytes(b"secret")
        path.chmod(0)
        is_root = os.geteuid() == 0
        if is_root:  # root may read everything
            os.seteuid(65534)
        try:
            with pytest.raises(EnergyAlignError, match=rf"cannot read .*a\.{extension}: Permission denied"):
                open_shards([path])
        finally:
            if is_root:
                os.seteuid(0)


@pytest.mark.parametrize("name", ["logits.pkl", "logits", "logits.npy.gz", "logits.pt", ".npy"])
def test_unknown_extensions_are_refused(tmp_path, name):
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(EnergyAlignError, match=r"must have the extension \.npy or \.npz or \.parquet or \.csv"):
        open_shards([tmp_path / name])


def test_no_file_at_all_is_refused():
    with pytest.raises(EnergyAlignError, match="expected at least one file of logits"):
        open_shards([])


def test_a_path_that_no_system_allows_is_refused():
    with pytest.raises(EnergyAlignError, match="null byte"):
        open_shards(["a\0.npy"])


@pytest.mark.parametrize("extension", ["npy", "csv"])
def test_a_key_for_a_format_without_keys_is_refused(tmp_path, extension):
    (tmp_path / f"a.{extension}").write_bytes(b"1.5,2")
    with pytest.raises(EnergyAlignError, match=rf"got key 'x', but a \.{extension} file has no keys"):
        open_shards([tmp_path / f"a.{extension}"], key="x")
