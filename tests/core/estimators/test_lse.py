"""The paper's estimator: equation (9) and its cluster form."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp

from energyalign.core.clusters import Clusters
from energyalign.core.errors import EnergyAlignError
from energyalign.core.estimators.lse import Lse
from energyalign.core.evidence import Evidence
from energyalign.core.fitting import fit_shifts

# e^f of 4 samples (rows) and 3 classes: columns sum to 16, 8 and 2.
HAND = np.log([[1.0, 2, 0.25], [3, 2, 0.25], [4, 2, 0.5], [8, 2, 1]])


class TestByHand:
    def test_per_class(self) -> None:
        shifts = Lse().estimate(Evidence.from_arrays(HAND), Clusters((0, 1, 2), anchor=1)).shifts
        # log(8 / 16), 0, log(8 / 2)
        assert shifts == pytest.approx([-0.6931471805599453, 0.0, 1.3862943611198906], abs=1e-14)

    def test_cluster_form(self) -> None:
        shifts = Lse().estimate(Evidence.from_arrays(HAND), Clusters((0, 1, 0), anchor=1)).shifts
        # log 8 - (log 16 + log 2) / 2 = log √2: a mean of energies, not the energy of a mean
        assert shifts == pytest.approx([0.34657359027997264, 0.0, 0.34657359027997264], abs=1e-14)

    def test_anchor_cluster_of_several_classes(self) -> None:
        shifts = Lse().estimate(Evidence.from_arrays(HAND), Clusters((0, 0, 1), anchor=0)).shifts
        # (log 16 + log 8) / 2 - log 2 = 2.5 log 2
        assert shifts == pytest.approx([0.0, 0.0, 1.7328679513998633], abs=1e-14)

    def test_standard_errors(self) -> None:
        energies = Lse().energies(Evidence.from_arrays(HAND), Clusters((0, 1, 0), anchor=1))
        # 1/ESS: 90/256, 1/4, 1.375/4. Values: √(Σ (1/ESS - 1/4)) / 2; shifts: √(Σ 1/ESS / 4 + 1/4)
        assert energies.standard_errors == pytest.approx([0.2209708691, 0.0], abs=1e-8)
        assert energies.shift_standard_errors == pytest.approx([0.651020833, 0.0], abs=1e-9)

    def test_labels_make_unequal_classes_count_the_same(self) -> None:
        # Three samples of class 0 and one of class 1 weigh 2/3, 2/3, 2/3 and 2.
        shifts = fit_shifts(
            Evidence.from_arrays(HAND[:, :2], [0, 0, 0, 1], counts=[3, 1]), estimator="prior", clusters="per-class"
        )
        assert np.exp(shifts.energies) == pytest.approx([(1 + 3 + 4) * 2 / 3 + 8 * 2, 2 * 4], rel=1e-14)


@given(
    n_samples=st.integers(1, 60),
    n_classes=st.integers(2, 8),
    scale=st.floats(0.1, 1e4),
    seed=st.integers(0, 2**32 - 1),
    labelled=st.booleans(),
)
def test_per_class_makes_all_energies_equal(
    n_samples: int, n_classes: int, scale: float, seed: int, labelled: bool
) -> None:
    rng = np.random.default_rng(seed)
    n_samples += n_classes
    logits = rng.normal(size=(n_samples, n_classes)) * scale + rng.normal(size=n_classes) * scale
    labels = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n_samples - n_classes)])
    evidence = Evidence.from_arrays(logits, labels if labelled else None)
    shifts = Lse().estimate(evidence, Clusters.per_class(n_classes)).shifts
    weights = 1 / np.bincount(labels)[labels] if labelled else np.ones(n_samples)
    aligned = logsumexp(logits + shifts, axis=0, b=weights[:, None])  # from scratch, on the corrected logits
    assert np.ptp(aligned) <= 1e-6


@given(seed=st.integers(0, 2**32 - 1), scale=st.floats(0.1, 50))
def test_clusters_have_equal_mean_energies(seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(30, 7)) * scale
    clusters = Clusters((0, 1, 1, 2, 2, 2, 0), anchor=int(rng.integers(3)))
    shifts = Lse().estimate(Evidence.from_arrays(logits), clusters).shifts
    aligned = logsumexp(logits + shifts, axis=0)
    means = [aligned[clusters.indices == k].mean() for k in range(3)]
    assert np.ptp(means) <= 1e-6
    assert np.all(shifts[clusters.indices == clusters.anchor] == 0)


def test_single_precision_logits_are_aligned_to_single_precision() -> None:
    logits = (np.random.default_rng(0).normal(size=(5000, 10)) * 5).astype(np.float32)
    shifts = Lse().estimate(Evidence.from_arrays(logits), Clusters.per_class(10)).shifts
    assert np.ptp(logsumexp(logits.astype(np.float64) + shifts, axis=0)) <= 1e-6


class TestClassesWithoutEvidence:
    def test_alone_they_are_refused_by_name(self) -> None:
        evidence = Evidence.from_arrays(HAND, [0, 0, 1, 1], class_names=["cat", "dog", "emu"])
        with pytest.raises(EnergyAlignError, match=r"no evidence for class emu: .*clusters 'monotone'.*'prior'"):
            Lse().estimate(evidence, Clusters.per_class(3))

    def test_in_a_cluster_they_take_the_shift_of_those_that_have_some(self) -> None:
        labels = np.array([0, 0, 1, 1])
        shifts = Lse().estimate(Evidence.from_arrays(HAND, labels), Clusters((0, 1, 1))).shifts
        energies = logsumexp(HAND, axis=0)
        assert shifts == pytest.approx([0, energies[0] - energies[1], energies[0] - energies[1]], abs=1e-14)

    def test_a_masked_class_has_no_say_in_its_cluster(self) -> None:
        masked = np.column_stack([HAND, np.full(4, -np.inf)])
        shifts = Lse().estimate(Evidence.from_arrays(masked), Clusters((0, 1, 1, 1))).shifts
        without = Lse().estimate(Evidence.from_arrays(HAND), Clusters((0, 1, 1))).shifts
        assert shifts == pytest.approx([*without, 0.0], abs=1e-14)
