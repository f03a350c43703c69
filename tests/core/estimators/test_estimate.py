"""Estimates by one estimator with one sharing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from energyalign.core.clusters import Clusters
from energyalign.core.errors import EnergyAlignError
from energyalign.core.estimators import ESTIMATORS, make_estimator
from energyalign.core.evidence import Evidence
from energyalign.core.sharing import make_sharing, smooth

COUNTS = np.array([400.0, 150, 60, 25, 8])
MEASURING = ["lse", "marginal", "shrunk"]


def random_evidence(seed: int, n_classes: int = 5, per_class: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Draw logits that favour the first classes, with labels."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(n_classes), per_class)
    return rng.normal(size=(len(labels), n_classes)) * 1.5 + 2 * np.eye(n_classes)[labels] + np.log(COUNTS), labels


@pytest.mark.parametrize("name", ESTIMATORS)
@given(seed=st.integers(0, 2**32 - 1))
def test_clusters_of_one_class_are_per_class(name: str, seed: int) -> None:
    logits, labels = random_evidence(seed)
    numbers = np.random.default_rng(seed).permutation(5)
    evidence = Evidence.from_arrays(logits, labels, counts=COUNTS)
    alone = make_estimator(name).estimate(evidence, Clusters(tuple(numbers.tolist()), anchor=int(numbers[4])))
    per_class = make_estimator(name).estimate(evidence, Clusters.per_class(5, COUNTS))
    np.testing.assert_allclose(alone.shifts, per_class.shifts, atol=1e-8)
    np.testing.assert_allclose(alone.standard_errors, per_class.standard_errors, atol=1e-8)


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("sharing", ["per-class", "monotone", 2, 3, [0, 1, 1, 2, 0]])
@given(seed=st.integers(0, 2**32 - 1))
def test_permuting_classes_permutes_shifts(name: str, sharing: Any, seed: int) -> None:
    logits, labels = random_evidence(seed)
    order = np.random.default_rng(seed).permutation(5)
    place = np.argsort(order)  # where each old class went
    evidence = Evidence.from_arrays(logits, labels, counts=COUNTS)
    permuted = Evidence.from_arrays(logits[:, order], place[labels], counts=COUNTS[order])
    other = [sharing[k] for k in order] if isinstance(sharing, list) else sharing
    one = make_estimator(name).estimate(evidence, make_sharing(sharing, evidence))
    two = make_estimator(name).estimate(permuted, make_sharing(other, permuted))
    np.testing.assert_allclose(two.shifts, one.shifts[order], atol=1e-8)
    np.testing.assert_allclose(two.standard_errors, one.standard_errors[order], atol=1e-8)


@pytest.mark.parametrize("name", ESTIMATORS)
@given(seed=st.integers(0, 2**32 - 1))
def test_another_anchor_adds_one_constant(name: str, seed: int) -> None:
    logits, labels = random_evidence(seed)
    evidence = Evidence.from_arrays(logits, labels, counts=COUNTS)
    assignment = (0, 1, 1, 2, 0)
    shifts = [make_estimator(name).estimate(evidence, Clusters(assignment, anchor=a)).shifts for a in range(3)]
    for a, values in enumerate(shifts):
        assert np.ptp(values - shifts[0]) == pytest.approx(0, abs=1e-9)
        assert np.all(values[np.equal(assignment, a)] == 0)


class TestMonotone:
    @pytest.mark.parametrize("name", MEASURING)
    def test_is_the_smoothed_energies_of_the_classes_alone(self, name: str) -> None:
        logits, labels = random_evidence(0)
        evidence = Evidence.from_arrays(logits, labels, counts=COUNTS)
        energies = make_estimator(name).energies(evidence, Clusters.per_class(5))
        values, _ = smooth(energies.values, energies.standard_errors, COUNTS, np.ones(5, dtype=bool))
        result = make_estimator(name).estimate(evidence, "monotone")
        np.testing.assert_allclose(result.shifts, values[4] - values, atol=1e-9)
        assert result.clusters.name == "monotone"

    @pytest.mark.parametrize("name", MEASURING)
    @given(seed=st.integers(0, 2**32 - 1))
    def test_shifts_never_rise_with_the_counts_and_pools_are_clusters(self, name: str, seed: int) -> None:
        logits, labels = random_evidence(seed, per_class=3)
        result = make_estimator(name).estimate(Evidence.from_arrays(logits, labels, counts=COUNTS), "monotone")
        assert np.all(np.diff(result.shifts) >= 0)  # COUNTS fall
        assert result.shifts[4] == 0
        for cluster in range(result.clusters.n_clusters):
            assert len(set(result.shifts[result.clusters.indices == cluster])) == 1
        assert np.all(result.standard_errors[result.clusters.indices == result.clusters.anchor] == 0)

    def test_it_is_the_rarest_usable_class_that_keeps_its_logits(self) -> None:
        logits, labels = random_evidence(1)
        logits[:, 4] = -np.inf
        kept = labels != 4
        for name in MEASURING:
            evidence = Evidence.from_arrays(logits[kept], labels[kept], counts=COUNTS)
            result = make_estimator(name).estimate(evidence, "monotone")
            without = Evidence.from_arrays(logits[kept][:, :4], labels[kept], counts=COUNTS[:4])
            expected = make_estimator(name).estimate(without, "monotone").shifts
            np.testing.assert_allclose(result.shifts, [*expected, 0.0], atol=1e-9)
            assert result.shifts[3] == 0
            assert result.standard_errors[4] == 0

    def test_a_class_without_labels_takes_the_value_at_its_count(self) -> None:
        logits, labels = random_evidence(2)
        kept = labels != 2
        evidence = Evidence.from_arrays(logits[kept], labels[kept], counts=COUNTS)
        shifts = make_estimator("lse").estimate(evidence, "monotone").shifts
        between = (COUNTS[1] - COUNTS[2]) / (COUNTS[1] - COUNTS[3])
        assert shifts[2] == pytest.approx(shifts[1] + between * (shifts[3] - shifts[1]), abs=1e-12)

    @pytest.mark.parametrize("name", MEASURING)
    def test_permuting_classes_permutes_shifts_also_with_a_class_without_labels(self, name: str) -> None:
        logits, labels = random_evidence(3)
        kept = labels != 2
        logits, labels = logits[kept], labels[kept]
        expected = make_estimator(name).estimate(Evidence.from_arrays(logits, labels, counts=COUNTS), "monotone")
        for seed in range(5):
            order = np.random.default_rng(seed).permutation(5)
            permuted = Evidence.from_arrays(logits[:, order], np.argsort(order)[labels], counts=COUNTS[order])
            shifts = make_estimator(name).estimate(permuted, "monotone").shifts
            np.testing.assert_allclose(shifts, expected.shifts[order], atol=1e-8)

    def test_more_classes_than_anyone_has(self) -> None:
        n_classes = 8142
        rng = np.random.default_rng(0)
        counts = np.round(rng.pareto(0.8, size=n_classes) * 16 + 2).clip(max=1000)
        logits = rng.normal(size=(40, n_classes)).astype(np.float32) + np.log(counts).astype(np.float32)
        shifts = make_estimator("lse").estimate(Evidence.from_arrays(logits, counts=counts), "monotone").shifts
        order = np.argsort(counts, kind="stable")
        assert np.all(np.diff(shifts[order]) <= 0)
        # The slope of the energies on log counts is 1 by construction; the noise of 40 samples is averaged away.
        log_counts = np.log(counts) - np.log(counts).mean()
        assert -(log_counts @ shifts) / (log_counts @ log_counts) == pytest.approx(1, abs=0.05)

    def test_needs_counts(self) -> None:
        with pytest.raises(EnergyAlignError, match="give counts"):
            make_estimator("lse").estimate(Evidence.from_arrays(np.zeros((2, 3))), "monotone")

    def test_needs_a_class_in_play(self) -> None:
        logits = np.full((2, 2), -np.inf)
        with pytest.raises(EnergyAlignError, match="no class has evidence"):
            make_estimator("lse").estimate(Evidence.from_arrays(logits, counts=[2, 1]), "monotone")


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("sharing", ["per-class", "monotone", 2, [0, 0, 1, 1, 1]])
def test_masked_classes_keep_shift_0(name: str, sharing: Any) -> None:
    logits, labels = random_evidence(4)
    logits[:, 2] = -np.inf
    evidence = Evidence.from_arrays(logits[labels != 2], labels[labels != 2], counts=COUNTS)
    result = make_estimator(name).estimate(evidence, make_sharing(sharing, evidence))
    assert result.shifts[2] == 0
    assert result.standard_errors[2] == 0
    assert name == "none" or result.shifts[0] < 0


def test_energies_are_estimated_once_per_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    logits, labels = random_evidence(5)
    evidence = Evidence.from_arrays(logits, labels, counts=COUNTS)
    read = _counting(monkeypatch)
    first = make_estimator("marginal").estimate(evidence, Clusters.per_class(5))
    passes = len(read)
    again = make_estimator("marginal").estimate(evidence, Clusters.per_class(5))
    assert len(read) == passes > 0
    np.testing.assert_array_equal(first.shifts, again.shifts)


def _counting(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the passes over any evidence."""
    passes: list[int] = []
    accumulate: Callable[..., Any] = Evidence.accumulate

    def counted(self: Evidence, *args: Any) -> Any:
        passes.append(1)
        return accumulate(self, *args)

    monkeypatch.setattr(Evidence, "accumulate", counted)
    return passes
