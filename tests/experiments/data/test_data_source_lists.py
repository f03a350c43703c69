"""ImageNet-LT and iNaturalist 2018 in their published layout, and the user's own lists."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.data.file_images import BadFilesError, FileImages
from energyalign.experiments.data.images import MemoryImages
from energyalign.experiments.data.sources import open_source
from energyalign.experiments.data.sources.lists import read_list
from energyalign.experiments.data.verify import verify_images
from energyalign.experiments.longtail.config import LongTailConfig
from energyalign.experiments.longtail.experiment import load_data
from energyalign.experiments.longtail.presets import PRESETS


@pytest.fixture
def imagenet(tmp_path, write_image):
    """Write three classes of 4, 2 and 1 training images, with one validation and one test image each."""
    lists = {"train": [], "val": [], "test": []}
    for k, (wnid, n) in enumerate([("n01440764", 4), ("n01443537", 2), ("n01484850", 1)]):
        for i in range(n + 1):
            name = f"train/{wnid}/{wnid}_{i}.JPEG"
            write_image(tmp_path / name, seed=10 * k + i)
            lists["val" if i == n else "train"].append(f"{name} {k}")
        name = f"val/{wnid}/ILSVRC2012_val_{k:08}.JPEG"
        write_image(tmp_path / name, seed=90 + k, mode="L" if k == 1 else "RGB")
        lists["test"].append(f"{name} {k}")
    for split, lines in lists.items():
        (tmp_path / f"ImageNet_LT_{split}.txt").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_imagenet_lt(imagenet):
    source = open_source("imagenet-lt", imagenet)
    assert source.splits == ("train", "val", "test")
    train, val, test = (source.load(split) for split in source.splits)
    assert np.bincount(train.labels).tolist() == [4, 2, 1]
    assert (len(val), len(test), test.n_classes) == (3, 3, 3)
    assert test.read(1).shape == (3, 30, 40)
    assert train.preparation.jitter == 0  # the paper crops and flips only
    for images in (train, val, test):
        verify_images(images)


def test_a_long_tailed_run_has_the_validation_images_where_there_is_a_list(imagenet):
    config = LongTailConfig.from_preset(PRESETS["imagenet-lt-resnet50"], seed=0)
    validation = load_data(config, imagenet).validation
    assert validation is not None
    assert len(validation) == 3
    (imagenet / "ImageNet_LT_val.txt").unlink()
    assert load_data(config, imagenet).validation is None


def test_lists_in_a_folder_of_their_own(imagenet, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "ImageNet_LT").symlink_to(imagenet)
    assert len(open_source("imagenet-lt", tmp_path / "elsewhere").load("train")) == 7


def test_inaturalist_tests_on_its_validation_images(tmp_path, write_image):
    lines = {"train": [], "val": []}
    for split, images in lines.items():
        for k in range(2):
            name = f"train_val2018/Aves/{k}/{split}.jpg"
            write_image(tmp_path / name, seed=k)
            images.append(f"{name} {k}")
        (tmp_path / f"iNaturalist18_{split}.txt").write_text("\n".join(images))
    source = open_source("inaturalist18", tmp_path)
    assert source.splits == ("train", "test")
    assert source.load("test").file_name(1).endswith("Aves/1/val.jpg")
    assert source.load("train").preparation.jitter == 0
    assert source.load("train").preparation.normalise.mean == (0.466, 0.471, 0.380)


def test_lists_of_ones_own(imagenet):
    for split in ("train", "test"):
        (imagenet / f"ImageNet_LT_{split}.txt").rename(imagenet / f"{split}.txt")
    source = open_source(f"lists:{imagenet}")
    assert source.splits == ("train", "test")
    assert np.bincount(source.load("train").labels).tolist() == [4, 2, 1]
    (imagenet / "ImageNet_LT_val.txt").rename(imagenet / "val.txt")
    assert open_source(f"lists:{imagenet}").splits == ("train", "val", "test")


def test_small_images_of_ones_own_lists_are_kept_in_memory(imagenet):
    """As for folders; the published lists keep the recipe for photographs, whatever images they list."""
    assert isinstance(open_source("imagenet-lt", imagenet).load("test"), FileImages)
    for split in ("train", "val", "test"):
        (imagenet / f"ImageNet_LT_{split}.txt").rename(imagenet / f"{split}.txt")
    source = open_source(f"lists:{imagenet}")
    for split in source.splits:
        images = source.load(split)
        assert isinstance(images, MemoryImages)
        assert images.images.shape[1:] == (3, 30, 40)
    first = imagenet / (imagenet / "train.txt").read_text().split()[0]
    Image.new("RGB", (41, 30)).save(first)
    assert isinstance(source.load("test"), FileImages)


def test_all_of_imagenet_lt_by_its_list(tmp_path):
    counts = json.loads((Path(__file__).parent / "imagenet_lt_train_counts.json").read_text())
    lines = [f"train/n{k:08}/n{k:08}_{i}.JPEG {k}" for k, n in enumerate(counts) for i in range(n)]
    (tmp_path / "ImageNet_LT_train.txt").write_text("\n".join(lines))
    train = open_source("imagenet-lt", tmp_path).load("train")
    assert (len(train), train.n_classes) == (115_846, 1000)
    assert np.bincount(train.labels).tolist() == counts


def test_a_missing_image(imagenet):
    (imagenet / "train/n01443537/n01443537_1.JPEG").unlink()
    with pytest.raises(BadFilesError, match=r"imagenet-lt train: 1 of 7 files are missing: .*n01443537_1.JPEG"):
        verify_images(open_source("imagenet-lt", imagenet).load("train"))


def test_a_corrupt_jpeg(imagenet):
    path = imagenet / "train/n01443537/n01443537_1.JPEG"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(BadFilesError, match="imagenet-lt train: 1 of 7 files cannot be decoded") as info:
        verify_images(open_source("imagenet-lt", imagenet).load("train"))
    assert info.value.files == (str(path),)


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_missing_list(imagenet, split):
    (imagenet / f"ImageNet_LT_{split}.txt").unlink()
    with pytest.raises(EnergyAlignError, match=rf"needs \S+ImageNet_LT_{split}\.txt, .*classifier-balancing"):
        open_source("imagenet-lt", imagenet).load("test")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("train/a.jpg 7", "labels up to 7, but no image of 4 of these classes"),
        ("../secret.jpg 0", "line 8: paths must be below the data root, got '../secret.jpg'"),
        ("train/../../secret.jpg 0", "paths must be below the data root"),
        ("/etc/passwd 0", "line 8: paths must be below the data root, got '/etc/passwd'"),
        ("train/a\0.jpg 0", r"line 8: paths must be below the data root, got 'train/a\\x00.jpg'"),
        ("train/a.jpg", "line 8: expected a path and a class number, got 'train/a.jpg'"),
        ("train/a.jpg -1", "expected a path and a class number"),
        ("train/a.jpg ²", "expected a path and a class number"),
        ("train/a.jpg 99999999999999999999", "labels must fit into 64 bits, got 99999999999999999999"),
        ("\nx 0", "line 8: expected a path and a class number, got ''"),
    ],
)
def test_a_wrong_line(imagenet, line, message):
    with (imagenet / "ImageNet_LT_train.txt").open("a") as stream:
        stream.write(line + "\n")
    with pytest.raises(EnergyAlignError, match=message):
        open_source("imagenet-lt", imagenet).load("train")


def test_a_test_class_without_training_images(imagenet):
    with (imagenet / "ImageNet_LT_test.txt").open("a") as stream:
        stream.write("val/x.JPEG 3\n")
    with pytest.raises(EnergyAlignError, match=r"ImageNet_LT_test\.txt must have images of the classes 0\.\.2"):
        open_source("imagenet-lt", imagenet).load("test")


def test_a_single_class_is_refused(tmp_path, write_image):
    for split in ("train", "test"):
        write_image(tmp_path / f"{split}.jpg")
        (tmp_path / f"{split}.txt").write_text(f"{split}.jpg 0\n")
    with pytest.raises(EnergyAlignError, match=r"train\.txt must have images of at least 2 classes, got 1"):
        open_source(f"lists:{tmp_path}").load("train")


@pytest.mark.parametrize("line", ["a b.jpg\t3", "a b.jpg \t 3 ", " a b.jpg  3"])
def test_a_mark_at_the_beginning_and_tabs(tmp_path, line):
    (tmp_path / "list.txt").write_text(f"{line}\nc.jpg 4\n", encoding="utf-8-sig")
    paths, labels = read_list(tmp_path / "list.txt")
    assert (paths, labels.tolist()) == (("a b.jpg", "c.jpg"), [3, 4])


def test_names_with_spaces_and_bytes_that_are_no_text(tmp_path):
    (tmp_path / "list.txt").write_text("a b/c d.jpg 3\r\n")
    paths, labels = read_list(tmp_path / "list.txt")
    assert (paths, labels.tolist()) == (("a b/c d.jpg",), [3])
    (tmp_path / "list.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(EnergyAlignError, match="cannot read the list"):
        read_list(tmp_path / "list.txt")
