"""Scores before and after are computed on samples that the correction was not fitted on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from energyalign import Evidence, fit_shifts
from energyalign.core.before_after import before_and_after
from energyalign.core.errors import EnergyAlignError


def biased_logits(n_per_class: int, bias: list[float], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    labels = np.tile(np.arange(len(bias)), n_per_class)
    logits = generator.normal(size=(len(labels), len(bias))) + 2.0 * np.eye(len(bias))[labels]
    return logits + np.array(bias), labels


def test_raw_scores_are_those_of_the_logits() -> None:
    logits, labels = biased_logits(50, [2.0, 0.0, -2.0])
    evidence = Evidence.from_arrays(logits, labels, counts=[100, 10, 1], kind="held-out")
    scores = before_and_after(evidence, fit_shifts(evidence, estimator="prior"))
    assert scores.before.accuracy == pytest.approx(np.mean(logits.argmax(1) == labels))
    np.testing.assert_array_equal(scores.before.total, [50, 50, 50])


def test_corrected_scores_of_a_fixed_correction_are_those_of_the_shifted_logits() -> None:
    logits, labels = biased_logits(50, [2.0, 0.0, -2.0])
    evidence = Evidence.from_arrays(logits, labels, counts=[100, 10, 1], kind="held-out")
    shifts = fit_shifts(evidence, estimator="prior", target_prior=[0.5, 0.3, 0.2])  # the same from any fold
    scores = before_and_after(evidence, shifts)
    assert scores.after.accuracy == pytest.approx(np.mean(shifts.predict(logits) == labels))
    assert scores.after.accuracy != scores.before.accuracy


def test_a_sample_has_no_part_in_its_own_correction() -> None:
    """By hand: the samples of every class go to five folds in turn; each fold gets the shifts of the others."""
    logits, labels = biased_logits(12, [2.0, 0.0, -2.0])
    folds = np.repeat(np.arange(12) % 5, 3)  # labels run 0, 1, 2, 0, 1, 2, ...
    right = np.zeros(len(labels), dtype=bool)
    for fold in range(5):
        rest = Evidence.from_arrays(logits[folds != fold], labels[folds != fold], kind="held-out")
        shifts = fit_shifts(rest, estimator="lse", clusters="per-class")
        right[folds == fold] = shifts.predict(logits[folds == fold]) == labels[folds == fold]
    whole = Evidence.from_arrays(logits, labels, kind="held-out")
    fitted = fit_shifts(whole, estimator="lse", clusters="per-class")
    scores = before_and_after(whole, fitted)
    assert scores.after.right.tolist() == [right[labels == k].sum() for k in range(3)]
    # The shifts fitted on all samples would be right on other samples: the two measures differ here.
    assert scores.after.right.tolist() != [(fitted.predict(logits) == labels)[labels == k].sum() for k in range(3)]


@pytest.mark.parametrize("clusters", ["monotone", "per-class", 2])
def test_every_way_of_sharing_is_fitted_again(clusters: str | int) -> None:
    logits, labels = biased_logits(60, [3.0, 1.0, -1.0, -3.0])
    evidence = Evidence.from_arrays(logits, labels, counts=[400, 50, 7, 1], kind="held-out")
    scores = before_and_after(evidence, fit_shifts(evidence, estimator="marginal", clusters=clusters))
    assert scores.after.balanced_accuracy > scores.before.balanced_accuracy + 0.1


def test_the_strength_of_the_correction_is_that_of_every_fold() -> None:
    logits, labels = biased_logits(50, [2.0, 0.0, -2.0])
    evidence = Evidence.from_arrays(logits, labels, counts=[100, 10, 1], kind="held-out")
    full = fit_shifts(evidence, estimator="prior")  # the same from any fold
    half = replace(full, values=0.5 * full.values, strength=0.5)
    scores = before_and_after(evidence, half)
    assert scores.after.accuracy == pytest.approx(np.mean(half.predict(logits) == labels))
    assert scores.after.accuracy != before_and_after(evidence, full).after.accuracy


def test_auto_is_scored_as_it_scored_itself() -> None:
    logits, labels = biased_logits(50, [2.0, 0.0, -2.0])
    evidence = Evidence.from_arrays(logits, labels, counts=[100, 10, 1], kind="held-out")
    shifts = fit_shifts(evidence)
    assert shifts.selection is not None
    assert shifts.strength != 1
    scores = before_and_after(evidence, shifts)
    gain = scores.after.balanced_accuracy - scores.before.balanced_accuracy
    assert gain == pytest.approx(shifts.selection.gain)


def test_labels_are_needed() -> None:
    logits, _ = biased_logits(10, [1.0, 0.0])
    evidence = Evidence.from_arrays(logits)
    with pytest.raises(EnergyAlignError, match="labels are required"):
        before_and_after(evidence, fit_shifts(evidence, estimator="marginal"))
