"""Features as data: files, splits, scale, and evidence of features."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet
from safetensors.numpy import save_file

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.data.features import FeatureSet, evidence_batches
from energyalign.experiments.data.loader import Loader
from energyalign.experiments.data.sources import open_source

LABELS = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1, 1])


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    return {
        "x_train": rng.normal(size=(10, 4)).astype(np.float32), "y_train": LABELS,
        "x_test": rng.normal(size=(3, 4)).astype(np.float32), "y_test": np.array([1, 0, 1]),
    }  # fmt: skip


def load(path, split="train"):
    return open_source(f"features:{path}").load(split)


def save(path, arrays, names=None):
    if path.suffix == ".npz":
        np.savez(path, **arrays, **({} if names is None else {"names": np.array(names)}))
    else:
        save_file(arrays, path, None if names is None else {"names": json.dumps(names)})
    return path


@pytest.mark.parametrize("name", ["x.npz", "x.safetensors"])
def test_splits_and_names_of_a_file(tmp_path, arrays, name):
    path = save(tmp_path / name, arrays, names=["cat", "dog"])
    train, test = load(path), load(path, "test")
    assert train.class_names == test.class_names == ("cat", "dog")
    assert train.labels.tolist() == LABELS.tolist()
    assert test.labels.tolist() == [1, 0, 1]
    assert open_source(f"features:{path}").splits == ("train", "test")


def test_features_are_in_units_of_the_root_mean_square_of_training(tmp_path, arrays):
    path = save(tmp_path / "x.npz", arrays)
    scale = np.sqrt((arrays["x_train"].astype(float) ** 2).mean())
    assert load(path).images.square().mean() == pytest.approx(1.0)
    np.testing.assert_allclose(load(path, "test").images, arrays["x_test"] / scale, rtol=1e-6)


def test_names_as_labels_are_numbered_by_name(tmp_path, arrays):
    words = np.array(["pear", "apple"])
    named = arrays | {"y_train": words[LABELS], "y_test": words[arrays["y_test"]]}
    test = load(save(tmp_path / "x.npz", named), "test")
    assert test.class_names == ("apple", "pear")
    assert test.labels.tolist() == [0, 1, 0]


def test_without_a_test_part_a_fifth_of_every_class_is_held_out(tmp_path, arrays):
    path = save(tmp_path / "x.npz", {"x_train": arrays["x_train"], "y_train": LABELS})
    train, test = load(path), load(path, "test")
    assert (len(train), len(test)) == (8, 2)
    assert sorted(test.labels.tolist()) == [0, 1]
    rows = {tuple(row) for row in train.images.tolist()} | {tuple(row) for row in test.images.tolist()}
    assert len(rows) == 10


@pytest.mark.parametrize("has_test", [True, False])
def test_a_folder_of_parquet_files(tmp_path, arrays, has_test):
    for split in ("train", "test")[: 1 + has_test]:
        table = pa.table({"embedding": arrays[f"x_{split}"].tolist(), "label": arrays[f"y_{split}"]})
        parquet.write_table(table, tmp_path / f"{split}-0.parquet")
    train = load(tmp_path)
    assert len(train) == (10 if has_test else 8)
    assert len(load(tmp_path, "test")) == (3 if has_test else 2)
    if has_test:
        reference = load(save(tmp_path / "x.npz", arrays))
        torch.testing.assert_close(train.images, reference.images)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"y_train": LABELS[:9]}, "one for each sample"),
        ({"x_train": np.zeros((10, 4), dtype=np.float32)}, "all zero"),
        ({"x_train": np.zeros((0, 4), dtype=np.float32)}, "there are none"),
        ({"x_train": np.full((10, 4), 1e300)}, "too large"),
        ({"x_train": np.arange(40).reshape(10, 4)}, "floating point"),
        ({"x_test": np.ones((3, 5), dtype=np.float32)}, "as many features"),
        ({"y_train": LABELS * 2}, "no sample of 1"),
        ({"y_train": LABELS.astype(float)}, "one class number for each sample"),
        ({"weights": np.ones(3)}, "it holds"),
        ({"y_train": LABELS + 8, "names": np.array(["a", "b"])}, "label 8 of sample 0 is out of range"),
        ({"x_val": np.ones((3, 4), dtype=np.float32)}, "x_val has no y_val: add it, or remove x_val"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, arrays, change, problem):
    path = save(tmp_path / "x.npz", arrays | change)
    with pytest.raises(EnergyAlignError, match=problem) as error:
        load(path, "test" if "x_test" in change else "train")
    assert str(path) in str(error.value)


def test_a_feature_that_is_not_finite_is_refused(tmp_path, arrays):
    arrays["x_test"][2, 1] = np.nan
    with pytest.raises(EnergyAlignError, match=r"x\.npz test: features must be finite, got nan in row 2, column 1"):
        load(save(tmp_path / "x.npz", arrays), "test")
    arrays["x_train"][4, 3] = np.inf
    with pytest.raises(EnergyAlignError, match="got inf in row 4, column 3 of the training features"):
        load(save(tmp_path / "x.npz", arrays), "train")


@pytest.fixture
def features():
    rng = np.random.default_rng(1)
    labels = np.repeat([0, 1, 2], [40, 10, 2])
    spread = np.array([0.0, 1.0, 3.0])
    vectors = 10.0 * labels[:, None] + spread * rng.normal(size=(52, 3))
    return FeatureSet("some", torch.tensor(vectors, dtype=torch.float32), labels, ("a", "b", "c"))


def drawn(features, policy, per_class=300, seed=0):
    vectors, labels = zip(*evidence_batches(features, per_class, policy, seed), strict=True)
    return torch.cat(vectors), torch.cat(labels).numpy()


@pytest.mark.parametrize("policy", ["none", "noise", "mixup"])
def test_evidence_is_balanced_and_fixed_by_its_seed(features, policy):
    first, labels = drawn(features, policy)
    assert np.bincount(labels).tolist() == [300, 300, 300]
    assert torch.equal(first, drawn(features, policy)[0])
    assert not torch.equal(first, drawn(features, policy, seed=1)[0])


def test_noise_has_the_spread_within_classes(features):
    noisy, labels = drawn(features, "noise")
    drawn_ones, _ = drawn(features, "none")
    classes = np.unique(features.labels)
    centred = np.concatenate(
        [of - of.mean(axis=0) for of in (features.images.numpy()[features.labels == k] for k in classes)]
    )
    expected = np.sqrt((centred**2).sum(axis=0) / (len(centred) - 3))
    np.testing.assert_allclose((noisy - drawn_ones).std(dim=0), expected, rtol=0.1, atol=1e-6)
    assert len(labels) == len(noisy)


def test_mixup_keeps_the_larger_share_of_the_labelled_sample(features):
    mixed, labels = drawn(features, "mixup")
    first_feature = mixed[:, 0].numpy()  # exactly 10 times the class number, without noise
    assert (np.abs(first_feature - 10.0 * labels) <= 0.5 * 20.0 + 1e-4).all()
    assert not np.isin(first_feature, (0.0, 10.0, 20.0)).all()


def test_batches_of_training_are_the_features_themselves(features):
    batch = next(Loader(features, batch_size=52, seed=0).epoch(1))
    assert sorted(map(tuple, batch.images.tolist())) == sorted(map(tuple, features.images.tolist()))
