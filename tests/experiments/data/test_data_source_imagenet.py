"""ImageNet in its common layouts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from imagenet_tree import make_imagenet_tree

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.data.file_images import FileImages
from energyalign.experiments.data.sources import open_source
from energyalign.experiments.data.verify import verify_images, verify_source


@pytest.fixture
def wnids(tmp_path):
    """Write four classes of three training and two validation images, in folders; return their WordNet ids."""
    return make_imagenet_tree(tmp_path, n_classes=4, per_class=3)


@pytest.fixture
def flat(tmp_path):
    """Write the same with a flat folder of validation images and their list."""
    return make_imagenet_tree(tmp_path, n_classes=4, per_class=3, flat_val=True)


def load(root, split):
    return open_source("imagenet", root).load(split)


def labels_by_file(images):
    return {Path(images.file_name(i)).name: int(label) for i, label in enumerate(images.labels)}


def test_class_folders(tmp_path, wnids):
    source = open_source("imagenet", tmp_path)
    assert source.splits == ("train", "test")
    train, test = source.load("train"), source.load("test")
    assert train.class_names == test.class_names == wnids == tuple(sorted(wnids))
    assert train.labels.tolist() == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3
    assert test.labels.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    for images in (train, test):
        for i, label in enumerate(images.labels):
            assert Path(images.file_name(i)).parent.name == wnids[label]
        verify_images(images)


def test_the_flat_layout_has_the_same_labels(tmp_path):
    make_imagenet_tree(tmp_path / "folders", n_classes=5)
    make_imagenet_tree(tmp_path / "flat", n_classes=5, flat_val=True)
    in_folders, flat = load(tmp_path / "folders", "test"), load(tmp_path / "flat", "test")
    assert labels_by_file(flat) == labels_by_file(in_folders)
    assert flat.class_names == in_folders.class_names
    assert not (np.diff(flat.labels) >= 0).all()  # in the order of the list
    verify_images(flat)


def test_the_other_name_of_the_list(tmp_path, flat):
    expected = labels_by_file(load(tmp_path, "test"))
    (tmp_path / "val.txt").rename(tmp_path / "ILSVRC2012_val.txt")
    assert labels_by_file(load(tmp_path, "test")) == expected


def test_a_list_beside_class_folders_is_not_read(tmp_path, wnids):
    (tmp_path / "val.txt").write_text("of another set")
    assert len(load(tmp_path, "test")) == 8


def test_small_images_are_prepared_as_photographs(tmp_path, flat):
    for split in ("train", "test"):
        images = load(tmp_path, split)
        assert isinstance(images, FileImages)
        assert images.read(0).shape == (3, 32, 40)
        preparation = images.preparation
        assert (preparation.side, preparation.resize, preparation.jitter) == (224, 256, 0.0)
        assert preparation.normalise.mean == (0.485, 0.456, 0.406)
        assert preparation.normalise.std == (0.229, 0.224, 0.225)
    steps = [type(step).__name__ for step in preparation.transformation(augment=True).transforms]
    assert steps == ["RandomResizedCrop", "RandomHorizontalFlip"]
    steps = [type(step).__name__ for step in preparation.transformation(augment=False).transforms]
    assert steps == ["Resize", "CenterCrop"]


@pytest.mark.parametrize("folder", ["imagenet", "ImageNet", "ILSVRC2012"])
def test_a_folder_in_the_data_root(tmp_path, write_image, folder):
    for name in ("apple", "bear"):  # CIFAR as PNG files in the same data root
        write_image(tmp_path / "train" / name / "0.png")
    make_imagenet_tree(tmp_path / folder, n_classes=3, per_class=2)
    assert len(load(tmp_path, "train")) == 6
    assert len(load(tmp_path, "test")) == 6


def test_the_data_root_comes_first(tmp_path, wnids):
    make_imagenet_tree(tmp_path / "imagenet", n_classes=2)
    assert load(tmp_path, "train").class_names == wnids


def test_a_class_may_have_no_test_images(tmp_path, wnids):
    for path in (tmp_path / "val" / wnids[1]).iterdir():
        path.unlink()
    (tmp_path / "val" / wnids[1]).rmdir()
    test = load(tmp_path, "test")
    assert test.class_names == wnids
    assert test.labels.tolist() == [0, 0, 2, 2, 3, 3]


def test_a_missing_train_folder(tmp_path, wnids):
    (tmp_path / "train").rename(tmp_path / "elsewhere")
    for split in ("train", "test"):  # whose class numbers come from it
        with pytest.raises(
            EnergyAlignError, match=rf"imagenet needs {tmp_path}/train, which is missing\. Get ILSVRC2012_img_train"
        ):
            load(tmp_path, split)


def test_a_missing_val_folder(tmp_path, wnids):
    (tmp_path / "val").rename(tmp_path / "elsewhere")
    assert len(load(tmp_path, "train")) == 12
    with pytest.raises(EnergyAlignError, match=rf"needs {tmp_path}/val, which is missing\. .*ILSVRC2012_img_val"):
        load(tmp_path, "test")


def test_a_flat_val_without_a_list(tmp_path, flat):
    (tmp_path / "val.txt").unlink()
    with pytest.raises(
        EnergyAlignError,
        match=rf"imagenet needs {tmp_path}/val\.txt, which is missing\. .*sort the images in it into folders "
        rf"{tmp_path}/val/WNID too; or leave them there and write {tmp_path}/val\.txt, with one image a line",
    ):
        load(tmp_path, "test")


def test_a_class_that_train_lacks(tmp_path, wnids):
    (tmp_path / "train" / wnids[2]).rename(tmp_path / "elsewhere")
    with pytest.raises(EnergyAlignError, match=rf"training folder lacks: {wnids[2]}\. Remove their folders"):
        load(tmp_path, "test")


def test_a_list_of_more_classes_than_train_has(tmp_path, flat):
    (tmp_path / "train" / flat[0]).rename(tmp_path / "elsewhere")
    with pytest.raises(
        EnergyAlignError, match=r"val\.txt has the label 3, but \S+/train has 3 classes\. .* number them 0\.\.2"
    ):
        load(tmp_path, "test")


@pytest.mark.parametrize("split", ["train", "val"])
def test_an_empty_class_folder(tmp_path, wnids, split):
    for path in (tmp_path / split / wnids[3]).iterdir():
        path.unlink()
    with pytest.raises(
        EnergyAlignError, match=rf"class folders in \S+/{split} have no images .*: {wnids[3]}\. Fill them or remove"
    ):
        load(tmp_path, "train" if split == "train" else "test")


def test_an_empty_list(tmp_path, flat):
    (tmp_path / "val.txt").write_text("")
    with pytest.raises(EnergyAlignError, match=r"the list \S+/val\.txt has no lines\. .*with one image a line"):
        load(tmp_path, "test")


def test_images_that_were_not_sorted_into_folders(tmp_path, wnids):
    path = min((tmp_path / "val" / wnids[0]).iterdir())
    path.rename(tmp_path / "val" / path.name)
    (tmp_path / "val" / "._hidden.JPEG").write_bytes(b"a note of a file system")
    with pytest.raises(
        EnergyAlignError, match=rf"/val has 1 image beside its class folders, such as {path.name}\. Sort them"
    ):
        load(tmp_path, "test")


def test_folders_that_are_no_classes_of_imagenet(tmp_path, wnids):
    (tmp_path / "train" / "n0144076").mkdir()
    for split in ("train", "test"):
        with pytest.raises(EnergyAlignError, match=r"must be named by WordNet ids .*, got n0144076\. Move"):
            load(tmp_path, split)


@pytest.mark.parametrize("n_left", [0, 1])
def test_too_few_classes(tmp_path, wnids, n_left):
    for wnid in wnids[n_left:]:
        (tmp_path / "train" / wnid).rename(tmp_path / wnid)
    for split in ("train", "test"):
        with pytest.raises(EnergyAlignError, match=rf"at least 2 class folders, got {n_left}\. Get ILSVRC"):
            load(tmp_path, split)


def test_the_check_names_every_place(tmp_path, flat):
    lines = []
    verify_source(open_source("imagenet", tmp_path), lines.append)
    assert lines == [
        *(f"found    {tmp_path / name}" for name in ("train", "val", "val.txt")),
        "train    12 images of 4 classes, 3 to 3 images per class",
        "test     8 images of 4 classes, 2 to 2 images per class",
    ]


def test_the_check_misses_the_list(tmp_path, flat):
    (tmp_path / "val.txt").unlink()
    lines = []
    with pytest.raises(EnergyAlignError, match="1 of 3 are missing"):
        verify_source(open_source("imagenet", tmp_path), lines.append)
    assert lines[-1] == f"MISSING  {tmp_path}/val.txt"


def test_the_tiny_tree_is_always_the_same(tmp_path):
    trees = []
    for name in ("one", "other"):
        make_imagenet_tree(tmp_path / name, n_classes=3, per_class=2, flat_val=True)
        files = [path for path in (tmp_path / name).rglob("*") if path.is_file()]
        trees.append({path.relative_to(tmp_path / name): path.read_bytes() for path in files})
    assert trees[0] == trees[1]
    pictures = [content for path, content in trees[0].items() if path.suffix == ".JPEG"]
    assert len(pictures) == len(set(pictures)) == 12


@pytest.mark.parametrize("n_classes", [12, 20])
def test_the_tiny_tree_can_be_learnt(tmp_path, n_classes):
    make_imagenet_tree(tmp_path, n_classes=n_classes, per_class=2)
    train, test = load(tmp_path, "train"), load(tmp_path, "test")
    assert np.bincount(train.labels).tolist() == np.bincount(test.labels).tolist() == [2] * n_classes

    def mean_colours(images):
        return np.stack([images.read(i).double().mean((1, 2)).numpy() for i in range(len(images))])

    means = mean_colours(train).reshape(n_classes, 2, 3).mean(1)
    distances = np.linalg.norm(mean_colours(test)[:, None] - means, axis=2)
    assert distances.argmin(1).tolist() == test.labels.tolist()
