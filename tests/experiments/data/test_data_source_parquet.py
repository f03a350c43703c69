"""Parquet files of the Hugging Face hub."""

from __future__ import annotations

import io
import json
import pickle

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from energyalign.core.errors import CannotGoOn, EnergyAlignError
from energyalign.experiments.data.file_images import FileImages
from energyalign.experiments.data.images import MemoryImages
from energyalign.experiments.data.loader import evaluation_batches
from energyalign.experiments.data.sources import hf_parquet, open_source
from energyalign.experiments.data.verify import verify_images


def png(seed, size=(16, 12)):
    stream = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


@pytest.fixture
def write(tmp_path):
    def write_shard(name, labels, *, column="label", names=None, size=(16, 12), images=None):
        images = images or [{"bytes": png(k, size), "path": None} for k in range(len(labels))]
        table = pa.table({"img": images, "coarse_label": [0] * len(labels), column: labels})
        if names is not None:
            note = {"info": {"features": {column: {"names": names, "_type": "ClassLabel"}}}}
            table = table.replace_schema_metadata({"huggingface": json.dumps(note)})
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        parquet.write_table(table, path)
        return open_source(f"parquet:{tmp_path}")

    return write_shard


def test_small_images_with_names_in_several_shards(write):
    write("data/train-00000-of-00002.parquet", [0, 1, 2], column="fine_label", names=["x", "y", "z"])
    write("data/train-00001-of-00002.parquet", [2, 1], column="fine_label", names=["x", "y", "z"])
    source = write("data/test-00000-of-00001.parquet", [1], column="fine_label", names=["x", "y", "z"])
    train, test = source.load("train"), source.load("test")
    assert isinstance(train, MemoryImages)
    assert train.labels.tolist() == [0, 1, 2, 2, 1]
    assert train.class_names == test.class_names == ("x", "y", "z")
    pixels = np.random.default_rng(1).integers(0, 256, (12, 16, 3), dtype=np.uint8)
    assert (train.read(4).permute(1, 2, 0).numpy() == pixels).all()


@pytest.mark.promise("An input that changes while it is read is detected", "changes")
def test_a_shard_that_changes_while_it_is_read(write, tmp_path, monkeypatch):
    source = write("train-0.parquet", [0, 1], column="labels")

    def read_late(arrow, path, columns):
        write("train-0.parquet", [1, 0], column="labels")
        return read_columns(arrow, path, columns)

    read_columns = hf_parquet._read_columns
    monkeypatch.setattr(hf_parquet, "_read_columns", read_late)
    with pytest.raises(CannotGoOn, match=r"train-0\.parquet changed while it was read"):
        source.load("train")


def test_large_images_without_names(write):
    write("train-0.parquet", [0, 1], column="labels", size=(80, 70))
    source = write("validation-0.parquet", [0], column="labels", size=(80, 70))
    assert source.splits == ("train", "test")
    train, test = source.load("train"), source.load("test")
    assert isinstance(train, FileImages)
    assert test.class_names == ("0", "1")
    verify_images(train)
    (batch,) = evaluation_batches(train, batch_size=5)
    assert batch.images.shape == (2, 3, 224, 224)
    assert len(pickle.dumps(train)) > 0  # workers that are not forked receive a copy of the images


def test_three_splits(write):
    write("train-0.parquet", [0, 1])
    write("validation-0.parquet", [0])
    source = write("test-0.parquet", [1])
    assert source.splits == ("train", "val", "test")
    assert [source.load(split).labels.tolist() for split in source.splits] == [[0, 1], [0], [1]]


def test_names_in_a_dict_and_notes_that_say_nothing(write):
    write("test-0.parquet", [0])
    assert write("train-0.parquet", [0, 1], names={"1": "b", "0": "a"}).load("train").class_names == ("a", "b")
    assert write("train-0.parquet", [0, 1], names=[]).load("train").class_names == ("0", "1")


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        ([0, 2], {}, r"labels up to 2, but no image of 1 of these classes \(the first: 1\)"),
        ([0, 1], {"names": ["a", "b", "c"]}, "has no image of 1 of its 3 classes: c"),
        ([0, 3], {"names": ["a", "b", "c"]}, "label 3 of image 1 is out of range"),
        ([0, -1], {}, "has the label -1"),
        ([0, None], {}, "column label must hold a class number in every row"),
        (["cat", "dog"], {}, "column label must hold a class number"),
        ([0, 1], {"column": "target"}, r"needs one column of images .* its columns: img, coarse_label, target"),
        ([0, 1], {"images": ["a", "b"]}, "needs one column of images"),
    ],
)
def test_files_that_will_not_do(write, labels, options, message):
    source = write("train-0.parquet", labels, **options)
    with pytest.raises(EnergyAlignError, match=message):
        source.load("train")


def test_images_are_told_apart_by_row_and_size(write):
    source = write("train-0.parquet", [0, 1, 0], size=(80, 70))
    before = source.load("train")
    assert before.digest() == source.load("train").digest() != before.subset([1, 0, 2]).digest()
    images = [{"bytes": png(k, (80, 71 if k == 2 else 70)), "path": None} for k in range(3)]
    assert write("train-0.parquet", [0, 1, 0], images=images).load("train").digest() != before.digest()


@pytest.mark.parametrize("kinds", [(pa.binary(), pa.large_binary()), (pa.large_binary(), pa.binary())])
def test_shards_may_differ_in_how_they_keep_bytes(tmp_path, kinds):
    for number, kind in enumerate(kinds):
        images = pa.array([{"bytes": png(10 * number + k, (80, 70))} for k in range(2)], pa.struct([("bytes", kind)]))
        parquet.write_table(pa.table({"image": images, "label": [0, 1]}), tmp_path / f"train-{number}.parquet")
    train = open_source(f"parquet:{tmp_path}").load("train")
    pixels = np.random.default_rng(11).integers(0, 256, (70, 80, 3), dtype=np.uint8)
    assert (train.read(3).permute(1, 2, 0).numpy() == pixels).all()
    verify_images(train)


@pytest.mark.parametrize("names", [None, ["a", "b"]])
@pytest.mark.parametrize("split", ["train", "test"])
def test_a_split_without_rows(tmp_path, write, split, names):
    for name in ("train", "test"):
        source = write(f"{name}-0.parquet", [0, 1], names=names)
    path = tmp_path / f"{split}-0.parquet"
    parquet.write_table(parquet.read_table(path).slice(0, 0), path)
    with pytest.raises(EnergyAlignError, match=rf"{split} has no rows: \S+{split}-0\.parquet\. Put"):
        source.load(split)


def test_an_empty_shard_among_others(tmp_path, write):
    write("train-0.parquet", [0, 1])
    source = write("train-1.parquet", [0, 1])
    path = tmp_path / "train-0.parquet"
    parquet.write_table(parquet.read_table(path).slice(0, 0), path)
    assert open_source(f"parquet:{tmp_path}").load("train").labels.tolist() == [0, 1]
    assert len(source.load("train")) == 2


def test_rows_without_bytes(write):
    images = [{"bytes": png(0, (80, 70)), "path": None}, {"bytes": None, "path": "elsewhere.png"}]
    source = write("train-0.parquet", [0, 1], images=images)
    with pytest.raises(EnergyAlignError, match=r"1 of 2 files are missing: .*row 1 \(counted from 0\)"):
        verify_images(source.load("train"))


def test_missing_and_damaged_files(tmp_path, write):
    source = open_source(f"parquet:{tmp_path}")
    with pytest.raises(EnergyAlignError, match=r"train-00000-of-00001\.parquet, which is missing. Put the Parquet"):
        source.load("train")
    source = write("train-0.parquet", [0, 1])
    (tmp_path / "train-0.parquet").write_bytes(b"PAR1")
    with pytest.raises(EnergyAlignError, match=r"train-0\.parquet is damaged or not a Parquet file"):
        source.load("train")
    with pytest.raises(EnergyAlignError, match=r"test-00000-of-00001\.parquet, which is missing"):
        source.load("test")
