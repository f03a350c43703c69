"""Digits, Fashion-MNIST and CIFAR, from files in their published formats."""

from __future__ import annotations

import dataclasses
import gzip
import struct

import numpy as np
import pytest
import torch

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.data.sources import open_source
from energyalign.experiments.data.sources.cifar import CIFAR10, CIFAR100, Cifar
from energyalign.experiments.data.sources.digits import Digits
from energyalign.experiments.data.sources.fashion import FashionMnist

RNG = np.random.default_rng(0)


def test_digits_are_split_once_and_for_all():
    train, test = Digits().load("train"), Digits().load("test")
    assert np.bincount(test.labels).tolist() == [50] * 10
    assert (len(train), len(train) + len(test)) == (1297, 1797)
    assert (train.images.shape[1:], train.images.dtype) == ((1, 8, 8), torch.uint8)
    assert (int(train.images.min()), int(train.images.max())) == (0, 255)
    assert not {image.numpy().tobytes() for image in train.images} & {image.numpy().tobytes() for image in test.images}
    again = Digits().load("train")
    assert torch.equal(again.images, train.images)


def test_digits_are_those_of_scikit_learn():
    from sklearn.datasets import load_digits

    digits = load_digits()
    known = {np.rint(image * 255 / 16).astype(np.uint8).tobytes(): label for image, label in
             zip(digits.images, digits.target, strict=True)}  # fmt: skip
    test = Digits().load("test")
    assert all(known[test.read(k).numpy().tobytes()] == test.labels[k] for k in range(500))


def test_digits_become_unit_normal():
    train = Digits().load("train")
    normal = train.preparation.normalise(train.images)
    assert abs(float(normal.mean())) < 0.01
    assert abs(float(normal.std()) - 1) < 0.01


def write_idx(path, array):
    path.parent.mkdir(parents=True, exist_ok=True)
    content = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


@pytest.fixture
def fashion(tmp_path, monkeypatch):
    monkeypatch.setattr("energyalign.experiments.data.sources.fashion.DEBIAN_FOLDER", tmp_path / "none")
    pixels = {"train": RNG.integers(0, 256, (20, 28, 28), dtype=np.uint8), "t10k": RNG.integers(0, 256, (10, 28, 28), dtype=np.uint8)}  # fmt: skip  # noqa: E501

    def write(folder, ending=".gz"):
        for prefix, images in pixels.items():
            write_idx(folder / f"{prefix}-images-idx3-ubyte{ending}", images)
            write_idx(folder / f"{prefix}-labels-idx1-ubyte{ending}", (np.arange(len(images)) % 10).astype(np.uint8))
        return pixels

    return write


@pytest.mark.parametrize(("place", "ending"), [(".", ".gz"), ("fashion-mnist", ".gz"), ("FashionMNIST/raw", "")])
def test_fashion_mnist_where_it_may_be(tmp_path, fashion, place, ending):
    pixels = fashion(tmp_path / place, ending)
    source = FashionMnist(tmp_path)
    train, test = source.load("train"), source.load("test")
    assert torch.equal(train.images[:, 0], torch.from_numpy(pixels["train"]))
    assert torch.equal(test.images[:, 0], torch.from_numpy(pixels["t10k"]))
    assert train.labels.tolist() == [*range(10), *range(10)]
    assert train.class_names[9] == "Ankle boot"


def test_fashion_mnist_missing(tmp_path, fashion):
    with pytest.raises(EnergyAlignError, match=r"needs .*train-images-idx3-ubyte\.gz, .*Zalando Research"):
        FashionMnist(tmp_path).load("train")
    with pytest.raises(EnergyAlignError, match="no split 'val': choose one of train, test"):
        FashionMnist(tmp_path).load("val")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda content: content[:5000], "is not a complete idx file"),
        (lambda _: b"<html>", "is not a complete idx file"),
        (lambda _: gzip.compress(b"\0\0\x08\x03" + b"\xff" * 12), "unpacks to .* bytes"),
        (lambda _: gzip.compress(b"\0\0\x08\x01" + b"\0" * 12), "its magic number is wrong"),
        (lambda _: gzip.compress(b"\0\0\x08\x03" + struct.pack(">III", 1, 1, 1) + b"xx"), "but it has more"),
        (lambda _: gzip.compress(b"\0\0\x08\x03" + struct.pack(">III", 1, 28, 28) + b"x" * 784), "20 labels. Get both"),
    ],
)
def test_fashion_mnist_damaged(tmp_path, fashion, spoil, message):
    fashion(tmp_path)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(EnergyAlignError, match=message):
        FashionMnist(tmp_path).load("train")


TINY = {
    10: dataclasses.replace(CIFAR10, images_per_file={"train": 20, "test": 30}),
    100: dataclasses.replace(CIFAR100, images_per_file={"train": 200, "test": 100}),
}


def write_binary(layout, root):
    """Write the official binary layout: label bytes, then the red, green and blue plane of every image."""
    written = {}
    for split, names in layout.files.items():
        for name in names:
            n = layout.images_per_file[split]
            records = RNG.integers(0, 256, (n, layout.label_bytes + 3072), dtype=np.uint8)
            records[:, layout.label_bytes - 1] = np.arange(n) % len(layout.class_names)
            (root / layout.folder).mkdir(parents=True, exist_ok=True)
            (root / layout.folder / name).write_bytes(records.tobytes())
            written.setdefault(split, []).append(records)
    return {split: np.concatenate(parts) for split, parts in written.items()}


@pytest.mark.parametrize("n_classes", [10, 100])
def test_cifar_in_its_binary_version(tmp_path, n_classes):
    layout = TINY[n_classes]
    written = write_binary(layout, tmp_path)
    for root in (tmp_path, tmp_path / layout.folder):
        for split, records in written.items():
            images = Cifar(layout, root).load(split)
            assert len(images) == len(records)
            assert images.labels.tolist() == records[:, layout.label_bytes - 1].tolist()
            first = records[-1, layout.label_bytes :]
            assert images.read(len(images) - 1)[:, 0, 0].tolist() == [first[0], first[1024], first[2048]]
            assert images.read(len(images) - 1)[0, 1, 2] == first[32 + 2]
    assert images.name == f"cifar{n_classes} test"


def test_cifar_knows_its_classes():
    assert CIFAR10.class_names == tuple(sorted(CIFAR10.class_names))
    assert CIFAR100.class_names == tuple(sorted(set(CIFAR100.class_names)))
    assert (len(CIFAR10.class_names), len(CIFAR100.class_names)) == (10, 100)
    assert CIFAR100.class_names[:2] == ("apple", "aquarium_fish")
    assert CIFAR100.class_names[-1] == "worm"


def test_cifar_missing_or_cut_off(tmp_path):
    write_binary(TINY[10], tmp_path)
    batch = tmp_path / "cifar-10-batches-bin" / "data_batch_3.bin"
    batch.write_bytes(batch.read_bytes()[:-1])
    with pytest.raises(EnergyAlignError, match=r"data_batch_3\.bin must have 61,460 bytes, got 61,459"):
        Cifar(TINY[10], tmp_path).load("train")
    batch.unlink()
    with pytest.raises(EnergyAlignError, match=r"cifar10 needs \S+data_batch_3\.bin, .*cifar-10-binary\.tar\.gz"):
        Cifar(TINY[10], tmp_path).load("train")


def test_cifar_with_a_wrong_label(tmp_path):
    records = write_binary(TINY[10], tmp_path)["test"]
    records[4, 0] = 77
    (tmp_path / "cifar-10-batches-bin" / "test_batch.bin").write_bytes(records.tobytes())
    with pytest.raises(EnergyAlignError, match="cifar10 test: label 77 of image 4 is out of range"):
        Cifar(TINY[10], tmp_path).load("test")


def test_pickles_are_not_an_answer(tmp_path):
    (tmp_path / "cifar-10-batches-py").mkdir()
    (tmp_path / "cifar-10-batches-py" / "data_batch_1").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    with pytest.raises(EnergyAlignError, match="Python version is a set of pickles, which are never loaded"):
        open_source("cifar10", tmp_path).load("train")


@pytest.fixture
def png_folders(tmp_path, write_image):
    for split in ("train", "test"):
        for k, name in enumerate(CIFAR10.class_names):
            for i in range(2):
                write_image(tmp_path / split / name / f"{i}.png", seed=20 * k + i, size=(32, 32))
    return tmp_path


@pytest.mark.parametrize("below", [".", "cifar10"])
def test_cifar_in_png_folders(png_folders, below):
    root = png_folders
    if below != ".":
        (root / "other").mkdir()
        (root / "other" / below).symlink_to(root)
        root = root / "other"
    images = open_source("cifar10", root).load("train")
    assert images.labels.tolist() == [k for k in range(10) for _ in range(2)]
    pixels = np.random.default_rng(20 * 7 + 1).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    assert (images.read(15).permute(1, 2, 0).numpy() == pixels).all()
    assert images.class_names == CIFAR10.class_names


def test_cifar_in_png_folders_of_other_classes(png_folders):
    (png_folders / "train" / "truck").rename(png_folders / "train" / "lorry")
    with pytest.raises(EnergyAlignError, match="10 classes of cifar10; missing or unknown: lorry, truck"):
        open_source("cifar10", png_folders).load("train")


def test_imagenet_in_the_same_data_root_is_not_taken_for_cifar(png_folders, tmp_path, write_image):
    write_image(tmp_path / "all" / "train" / "n01440764" / "0.png")
    with pytest.raises(
        EnergyAlignError, match=r"cifar10 needs \S+data_batch_1\.bin.* which is missing\. Get cifar-10-bin"
    ):
        open_source("cifar10", tmp_path / "all").load("train")
    (tmp_path / "all" / "cifar10").symlink_to(png_folders)
    assert len(open_source("cifar10", tmp_path / "all").load("train")) == 20


def test_cifar_in_png_folders_of_another_size(png_folders, write_image):
    odd = write_image(png_folders / "test" / "cat" / "1.png", size=(33, 32))
    with pytest.raises(EnergyAlignError, match=f"{odd} has 33 x 32 pixels, but .* 32 x 32"):
        open_source("cifar10", png_folders).load("test")
