"""Downloads from local addresses."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import tarfile

import pytest

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.data.download import Published, unpack
from energyalign.experiments.data.sources import SOURCES, open_source
from energyalign.experiments.data.sources.cifar import CIFAR100, Cifar
from energyalign.experiments.data.sources.fashion import PUBLISHED


def published(path):
    return Published(path.as_uri(), hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest())


@pytest.fixture
def archive(tmp_path):
    """Make a small archive in the layout of cifar-100-binary.tar.gz, with a member outside of it."""
    (tmp_path / "site").mkdir()
    path = tmp_path / "site" / "cifar-100-binary.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name in ("cifar-100-binary/train.bin", "cifar-100-binary/test.bin", "../../evil", "cifar-100-binary/other"):
            info = tarfile.TarInfo(name)
            content = bytes(k for k in range(100) for _ in range(3074))
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def test_the_archive_is_fetched_and_unpacked(tmp_path, archive):
    layout = dataclasses.replace(CIFAR100, published=published(archive), images_per_file={"train": 100, "test": 100})
    root = tmp_path / "a" / "b"
    source = Cifar(layout, root)
    with pytest.raises(EnergyAlignError, match="which is missing"):
        source.load("train")  # nothing is downloaded without a request
    assert not root.exists()
    source.download()
    assert Cifar(layout, root).load("train").labels.tolist() == list(range(100))
    assert sorted(path.name for path in (root / "cifar-100-binary").iterdir()) == ["test.bin", "train.bin"]
    assert not list(tmp_path.rglob("evil"))


def test_another_content_is_refused_and_leaves_nothing(tmp_path, archive):
    wrong = dataclasses.replace(published(archive), md5="0" * 32)
    with pytest.raises(EnergyAlignError, match=f"must have the MD5 sum {'0' * 32}"):
        wrong.fetch(tmp_path / "root")
    assert list((tmp_path / "root").iterdir()) == []


def test_no_connection(tmp_path):
    gone = Published((tmp_path / "gone.tar.gz").as_uri(), "0" * 32)
    with pytest.raises(EnergyAlignError, match=r"cannot download file:.*gone\.tar\.gz .* by hand"):
        gone.fetch(tmp_path / "root")


def test_archives_that_are_none(tmp_path, archive):
    with pytest.raises(EnergyAlignError, match="cannot unpack"):
        unpack(archive, ["cifar-100-binary/missing.bin"], tmp_path / "root")
    archive.write_bytes(archive.read_bytes()[:50])
    with pytest.raises(EnergyAlignError, match="Delete it and fetch it again"):
        unpack(archive, ["cifar-100-binary/train.bin"], tmp_path / "root")


def test_fashion_mnist_is_fetched_file_by_file(tmp_path, monkeypatch):
    (tmp_path / "site").mkdir()
    files = []
    for one in PUBLISHED:
        (tmp_path / "site" / one.file_name).write_bytes(b"content of " + one.file_name.encode())
        files.append(published(tmp_path / "site" / one.file_name))
    monkeypatch.setattr("energyalign.experiments.data.sources.fashion.PUBLISHED", tuple(files))
    open_source("fashion-mnist", tmp_path / "root").download()
    assert sorted(path.name for path in (tmp_path / "root" / "fashion-mnist").iterdir()) == sorted(
        one.file_name for one in PUBLISHED
    )


@pytest.mark.parametrize(
    "name", ["digits", "imagenet", "imagenet-lt", "inaturalist18", "folder:x", "lists:x", "parquet:x"]
)
def test_other_sets_say_how_to_get_them(name):
    source = open_source(name)
    with pytest.raises(EnergyAlignError, match=f"energyalign cannot download {name}. ") as info:
        source.download()
    assert source.how_to_get in str(info.value)


def test_every_source_has_a_name_and_a_remedy(tmp_path):
    for key, entry in SOURCES.items():
        source = open_source(key.replace("PATH", str(tmp_path)), tmp_path)
        assert source.name == key.replace("PATH", str(tmp_path))
        assert len(source.how_to_get) > 20
        assert entry.description
        assert {"train", "test"} <= set(source.splits)
