"""The logits in the package: their properties, and that they agree with results/."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path

import numpy as np
import pytest

import energyalign.datasets
from energyalign import ClassScores, EnergyAligner
from energyalign.datasets import load_cifar100_lt
from energyalign.experiments.engine.stored import measured_runs

ROOT = Path(__file__).parents[2]
FILE = Path(energyalign.datasets.__file__).parent / "cifar100_lt.npz"
FROM_RESULTS = pytest.mark.skipif(not (ROOT / "results").exists(), reason="results/ is in the repository only")


def test_shapes_and_types() -> None:
    data = load_cifar100_lt()
    assert data.evidence.shape == (5_000, 100)
    assert data.test.shape == (10_000, 100)
    assert data.evidence.dtype == data.test.dtype == np.float32
    assert np.bincount(data.evidence_labels).tolist() == [50] * 100
    assert np.bincount(data.test_labels).tolist() == [100] * 100
    assert (data.counts[0], data.counts[-1], data.counts.sum()) == (500, 5, 10_847)
    assert data.class_names[:2] == ("apple", "aquarium_fish")
    assert len(data.class_names) == 100


def test_the_file_is_small() -> None:
    assert FILE.stat().st_size <= 3e6


@FROM_RESULTS
def test_the_file_is_made_from_results() -> None:
    spec = importlib.util.spec_from_file_location("package", ROOT / "results" / "package.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    with np.load(FILE, allow_pickle=False) as stored:
        made = script.packaged()
        assert set(stored.files) == set(made)
        for name, array in made.items():
            np.testing.assert_array_equal(stored[name], array)
            assert stored[name].dtype == array.dtype


def test_what_auto_chooses_helps() -> None:
    """The published row contains the choice of the version that measured it; another version may choose differently."""
    data = load_cifar100_lt()
    aligner = EnergyAligner().fit(data.evidence, data.evidence_labels, counts=data.counts)
    raw, aligned = (np.mean(x.argmax(axis=1) == data.test_labels) for x in (data.test, aligner.transform(data.test)))
    assert aligned > raw + 0.03


@FROM_RESULTS
@pytest.mark.parametrize(
    ("corrector", "estimator", "clusters"),
    [
        ("raw", "none", "per-class"),
        ("logit-adjustment", "prior", "per-class"),
        ("ea", "lse", "jenks"),
        ("ea-marginal", "marginal", "monotone"),
    ],
)
def test_numbers_are_those_of_the_published_rows(corrector: str, estimator: str, clusters: str) -> None:
    data = load_cifar100_lt()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        aligner = EnergyAligner(estimator=estimator, clusters=clusters)
        aligner.fit(data.evidence, data.evidence_labels, counts=data.counts)
    scores = ClassScores(100).update(aligner.transform(data.test), data.test_labels)
    (run,) = measured_runs([ROOT / "results" / "cifar100-lt-100" / "ce" / "seed-0"])
    (row,) = (row for row in run.rows if row.corrector == corrector and str(row.evidence) in ("None", "none x 50"))
    assert scores.accuracy == pytest.approx(row.overall, abs=10 / 10_000)
    for name, value in scores.groups(data.counts).items():
        assert value == pytest.approx(getattr(row, name), abs=0.003)
