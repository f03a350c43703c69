"""The record of the images of a run."""

from __future__ import annotations

import json

import numpy as np
import pytest

from energyalign.core.errors import EnergyAlignError
from energyalign.data.cut import cut_long_tail
from energyalign.data.manifest import Manifest


@pytest.fixture
def manifest(small):
    return cut_long_tail(small(60), dataset="sïx", imbalance=4, sizes={"train": 60, "test": 9})


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
    assert manifest.short_hash == "517661d492b4"


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
        ({"version": 2}, "has version 2"),
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
