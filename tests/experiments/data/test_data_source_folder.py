"""Folders of the user's images."""

from __future__ import annotations

import numpy as np
import pytest

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.data.file_images import FileImages
from energyalign.experiments.data.images import MemoryImages
from energyalign.experiments.data.sources import open_source
from energyalign.experiments.data.verify import verify_images


@pytest.fixture
def tree(tmp_path, write_image):
    """Write class folders with these numbers of images, by default too large to keep in memory."""

    def write(below, counts, size=(80, 60)):
        for name, n in counts.items():
            for i in range(n):
                write_image(tmp_path / below / name / f"{i:02}.png", seed=i, size=size)
        return tmp_path

    return write


def test_train_and_test_folders(tree):
    tree("train", {"dog": 3, "cat": 2, "emu": 1})
    source = open_source(f"folder:{tree('test', {'cat': 1, 'emu': 2})}")
    train, test = source.load("train"), source.load("test")
    assert source.splits == ("train", "test")
    assert isinstance(train, FileImages)
    assert train.class_names == test.class_names == ("cat", "dog", "emu")
    assert np.bincount(train.labels).tolist() == [2, 3, 1]
    assert test.labels.tolist() == [0, 2, 2]
    verify_images(test)


def test_val_is_the_test_split_unless_there_is_one(tree):
    tree("train", {"a": 1, "b": 1})
    root = tree("val", {"a": 1, "b": 1})
    source = open_source(f"folder:{root}")
    assert source.splits == ("train", "test")
    assert "/val/" in source.load("test").file_name(0)
    tree("test", {"a": 1, "b": 1})
    source = open_source(f"folder:{root}")
    assert source.splits == ("train", "val", "test")
    assert "/test/" in source.load("test").file_name(0)
    assert "/val/" in source.load("val").file_name(0)


def test_one_folder_is_split_by_class_and_always_alike(tree):
    source = open_source(f"folder:{tree('.', {'many': 23, 'few': 2, 'train': 10})}")
    train, test = source.load("train"), source.load("test")
    assert train.class_names == ("few", "many", "train")
    assert np.bincount(test.labels).tolist() == [1, 5, 2]
    assert np.bincount(train.labels).tolist() == [1, 18, 8]
    files = [{images.file_name(k) for k in range(len(images))} for images in (train, test)]
    assert not files[0] & files[1]
    again = source.load("test")
    assert [again.file_name(k) for k in range(8)] == [test.file_name(k) for k in range(8)]


def test_small_images_of_one_size_are_kept_in_memory(tree, write_image):
    root = tree("train", {"a": 3, "b": 2}, size=(16, 12))
    tree("test", {"a": 1, "b": 1}, size=(16, 12))
    source = open_source(f"folder:{root}")
    train, test = source.load("train"), source.load("test")
    assert isinstance(train, MemoryImages)
    assert train.images.shape == (5, 3, 12, 16)
    assert test.images.shape == (2, 3, 12, 16)
    odd = write_image(root / "test" / "a" / "odd.png", size=(16, 13))
    with pytest.raises(EnergyAlignError, match=rf"{odd} has 16 x 13 pixels, but .* 16 x 12"):
        source.load("test")
    write_image(root / "train" / "a" / "odd.png", size=(16, 13))
    assert isinstance(source.load("train"), FileImages)
    assert isinstance(source.load("test"), FileImages)


def test_damaged_small_images_are_all_named(tree):
    root = tree("train", {"a": 4, "b": 3}, size=(16, 12))
    tree("test", {"a": 1, "b": 1}, size=(16, 12))
    for name in ("a/01.png", "b/02.png"):
        content = (root / "train" / name).read_bytes()
        (root / "train" / name).write_bytes(content[:-120])
    with pytest.raises(EnergyAlignError, match=r"train: 2 of 7 files .*a/01\.png, .*b/02\.png"):
        open_source(f"folder:{root}").load("train")


def test_hidden_and_other_files_are_no_images(tree, tmp_path):
    root = tree("train", {"a": 1, "b": 1})
    tree("test", {"a": 1, "b": 1})
    (root / "train" / "a" / "._00.png").write_bytes(b"x")
    (root / "train" / "a" / "Thumbs.db").write_bytes(b"x")
    (root / "train" / ".cache").mkdir()
    assert len(open_source(f"folder:{root}").load("train")) == 2


def test_grey_images_of_a_colour_set(tree, write_image):
    root = tree("train", {"a": 2, "b": 2}, size=(16, 12))
    tree("test", {"a": 1, "b": 1}, size=(16, 12))
    write_image(root / "train" / "a" / "00.png", mode="L", size=(16, 12))
    assert open_source(f"folder:{root}").load("train").read(0).shape == (3, 12, 16)


@pytest.mark.parametrize(
    ("trees", "split", "message"),
    [
        ([], "train", "which is missing. Make "),
        ([("train", {"a": 1, "b": 1})], "test", r"needs \S+/test, which is missing"),
        ([("train", {"a": 1, "b": 1}), ("test", {"a": 1, "c": 1})], "test", "training folder lacks: c. Remove"),
        ([("train", {"a": 1}), ("test", {"a": 1})], "train", "must have at least 2 class folders, got 1"),
        ([(".", {"a": 5, "b": 1})], "train", "at least 2 images of every class, .* got 1 of b"),
    ],
)
def test_folders_that_will_not_do(tree, tmp_path, trees, split, message):
    for below, counts in trees:
        tree(f"set/{below}", counts)
    with pytest.raises(EnergyAlignError, match=message):
        open_source(f"folder:{tmp_path}/set").load(split)


@pytest.mark.parametrize("names", [("test", "val"), ("training", "testing"), ("Train", "Test"), ("train_", "val")])
def test_splits_of_other_names_are_no_classes(tree, names):
    for name in names:
        root = tree(name, {"a": 5, "b": 5})
    if names[0] == "train_":  # an unknown name, which may be a class
        assert open_source(f"folder:{root}").load("train").class_names == ("train_", "val")
        return
    with pytest.raises(
        EnergyAlignError,
        match=rf"\({', '.join(sorted(names))}\) are splits, not classes, .* Name the training folder",
    ):
        open_source(f"folder:{root}").load("train")


def test_classes_may_be_named_as_splits_are(tree):
    assert open_source(f"folder:{tree('.', {'test': 3, 'train': 3})}").load("train").class_names == ("test", "train")


def test_links_are_followed_once(tree, tmp_path):
    root = tree("train", {"a/own": 2, "b/own": 1})
    tree("more/of_a", {"deep": 3})
    (root / "train" / "a" / "more").symlink_to(root / "more" / "of_a")
    (root / "train" / "a" / "more_again").symlink_to(root / "more" / "of_a")  # the same images once more
    (root / "train" / "a" / "own" / "self").symlink_to(root / "train" / "a")
    (root / "train" / "a" / "up").symlink_to(root / "train")  # where the images of b are, too
    (root / "train" / "c").symlink_to(root / "more")
    (root / "more" / "back").symlink_to(root / "train")
    train = open_source(f"folder:{root}").load("train")
    files = [train.file_name(k).removeprefix(f"{root}/train/") for k in range(len(train))]
    assert files == [
        "a/more/deep/00.png", "a/more/deep/01.png", "a/more/deep/02.png", "a/own/00.png", "a/own/01.png",
        "b/own/00.png",
        "c/of_a/deep/00.png", "c/of_a/deep/01.png", "c/of_a/deep/02.png",
    ]  # fmt: skip
    assert train.labels.tolist() == [0, 0, 0, 0, 0, 1, 2, 2, 2]


def test_an_empty_class(tree):
    root = tree("train", {"a": 1, "b": 1})
    (root / "train" / "c").mkdir()
    with pytest.raises(EnergyAlignError, match=r"class folders in \S+ have no images \(\.jpg, .*\): c"):
        open_source(f"folder:{root}").load("train")


def test_a_file_in_place_of_a_folder(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(EnergyAlignError, match="at least 2 class folders, got 0"):
        open_source(f"folder:{tmp_path}/file").load("train")


def test_unknown_names():
    for name in ("mnist", "folder:", "folder:PATH", "tar:x"):
        with pytest.raises(EnergyAlignError, match=r"unknown data set .*: choose one of digits, .*folder:PATH"):
            open_source(name)
