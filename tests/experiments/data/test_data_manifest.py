"""The manifest of the images of a run."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.data.cut import cut_long_tail
from energyalign.experiments.data.manifest import Manifest
from energyalign.experiments.data.sources import open_source


@pytest.fixture
def manifest(small):
    return cut_long_tail(small(60), dataset="sïx", imbalance=4, test=small(9))


@pytest.fixture
def path(manifest, tmp_path):
    manifest.save(tmp_path / "manifest.json")
    return tmp_path / "manifest.json"


def test_round_trip(manifest, path):
    loaded = Manifest.load(path)
    assert loaded.sha256 == manifest.sha256
    assert loaded.short_hash == manifest.sha256[:12]
    assert loaded.indices.tolist() == manifest.indices.tolist()
    assert (loaded.dataset, loaded.sizes, loaded.counts) == ("sïx", {"train": 60, "test": 9}, (20, 10, 5))
    loaded.save(path)
    assert Manifest.load(path).sha256 == manifest.sha256


def test_the_hash_is_of_the_content_and_not_of_the_layout(manifest, path):
    content = json.loads(path.read_text())
    path.write_text(json.dumps(dict(reversed(content.items())), indent=7))
    assert Manifest.load(path).sha256 == manifest.sha256


def test_the_hash_stays_the_same_over_versions(small):
    manifest = cut_long_tail(small(6), dataset="six", profile="natural")
    assert manifest.short_hash == "3be36cc1e1a7"


@pytest.mark.parametrize(
    ("key", "value"),
    [("seed", 1), ("indices", [0, 1]), ("counts", [20, 10, 6]), ("class_names", ["a", "c", "b"]), ("dataset", "seven")],
)
def test_a_changed_file_is_refused(path, key, value):
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(EnergyAlignError, match="was changed after it was written"):
        Manifest.load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "other"}, "is not a manifest"),
        ({"version": 1}, "has version 1, but this energyalign reads 3"),
        ({"indices": "all"}, "missing or wrong entry"),
        ({"indices": [2**70]}, "missing or wrong entry"),
        ({"counts": None}, "missing or wrong entry"),
    ],
)
def test_a_wrong_file_is_refused(path, change, message):
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(EnergyAlignError, match=message):
        Manifest.load(path)


def test_a_file_that_is_none(tmp_path):
    with pytest.raises(EnergyAlignError, match="cannot read the manifest"):
        Manifest.load(tmp_path / "none.json")
    (tmp_path / "half.json").write_text('{"schema": ')
    with pytest.raises(EnergyAlignError, match="not valid JSON"):
        Manifest.load(tmp_path / "half.json")


def test_indices_into_other_data_are_refused(manifest, small):
    train = small(60)
    assert len(manifest.select(train)) == 35
    with pytest.raises(EnergyAlignError, match="another copy or another order of sïx"):
        manifest.select(train.subset(np.arange(60)[::-1]))


def test_other_pixels_are_another_manifest(manifest, small):
    train = small(60)
    train.images[int(manifest.indices[3])] ^= 1
    other = cut_long_tail(train, dataset="sïx", imbalance=4, test=small(9))
    assert other.indices.tolist() == manifest.indices.tolist()
    assert other.sha256 != manifest.sha256
    with pytest.raises(EnergyAlignError, match="was made from other images of sïx: only the labels are the same"):
        manifest.select(train)


def test_images_that_are_not_kept_do_not_matter(manifest, small):
    train = small(60)
    train.images[np.setdiff1d(np.arange(60), manifest.indices)] ^= 1
    assert len(manifest.select(train)) == 35


def test_shape_matters_where_bytes_are_the_same(small):
    train = small(6)
    turned = dataclasses.replace(train, images=train.images.reshape(6, 3, 6, 8))
    assert turned.digest() != train.digest()


@pytest.fixture
def photos(tmp_path, write_image):
    for name in ("cat", "dog"):
        for i in range(5):
            write_image(tmp_path / "photos" / "train" / name / f"{i}.png", seed=i, size=(80, 70))
    return tmp_path / "photos"


def manifest_of(folder):
    name = f"folder:{folder}"
    return cut_long_tail(open_source(name).load("train"), dataset=name, profile="natural")


def test_files_count_by_name_and_size_wherever_they_lie(photos, tmp_path, write_image):
    before = manifest_of(photos)
    moved = photos.rename(tmp_path / "elsewhere")
    after = manifest_of(moved)
    assert after.sha256 == before.sha256
    assert after.dataset == f"folder:{moved}"
    assert dataclasses.replace(before, dataset=f"lists:{photos}").sha256 != before.sha256
    before.keep(tmp_path / "manifest.json")
    after.keep(tmp_path / "manifest.json")
    (moved / "train" / "dog" / "4.png").rename(moved / "train" / "dog" / "5.png")
    assert manifest_of(moved).sha256 != before.sha256
    (moved / "train" / "dog" / "5.png").rename(moved / "train" / "dog" / "4.png")
    for i in range(5):
        write_image(moved / "train" / "dog" / f"{i}.png", seed=i, size=(90, 70))
    assert manifest_of(moved).sha256 != before.sha256
    with pytest.raises(EnergyAlignError, match="was made from other images of folder:"):
        before.select(open_source(f"folder:{moved}").load("train"))


def test_a_missing_file_is_left_to_verification(photos):
    train = open_source(f"folder:{photos}").load("train")
    whole = train.digest()
    (photos / "train" / "cat" / "2.png").unlink()
    assert train.digest() != whole


def test_a_run_keeps_the_manifest_that_it_began_with(manifest, tmp_path, small):
    path = tmp_path / "manifest.json"
    manifest.keep(path)
    content = path.read_bytes()
    manifest.keep(path)
    train = small(60)
    train.images[int(manifest.indices[0])] ^= 1
    other = cut_long_tail(train, dataset="sïx", imbalance=4, test=small(9))
    with pytest.raises(
        EnergyAlignError,
        match=rf"data of sïx have changed since the run in {tmp_path} began: its manifest was {manifest.short_hash} "
        rf"and now is {other.short_hash} \(what differs: images_sha256\)\. .*give another --out",
    ):
        other.keep(path)
    assert path.read_bytes() == content
