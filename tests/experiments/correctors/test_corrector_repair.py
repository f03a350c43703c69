"""REPAIR: pairs by brute force, the fit by hand and by another optimiser, and the images that it is fitted on."""

from __future__ import annotations

from dataclasses import replace
from math import log
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import log_softmax
from untrained_run import images_of_test, scores_of_test, untrained_run

from energyalign.experiments.correctors.repair import Repair
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.nets.corrected_heads import RepairedHead, ranked_pairs

COUNTS = np.array([90, 30, 10, 3, 1])


def drawn(n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Draw logits of five classes that favour common ones, and labels."""
    rng = np.random.default_rng(0)
    labels = np.arange(n) % 5
    return rng.normal(size=(n, 5)) + 1.5 * np.eye(5)[labels] + 0.5 * np.log(COUNTS), labels


def published_pairs(logits: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the k largest logits, each with its mean gap, rank gap, and log ratios of p and counts."""
    ranked = np.argsort(-logits, axis=1)[:, :k]
    largest = np.take_along_axis(logits, ranked, axis=1)
    log_p = log_softmax(largest, axis=1)
    pairs = np.zeros((len(logits), k, 4))
    for y in range(k):
        for j in set(range(k)) - {y}:
            ratio = np.log((COUNTS[ranked[:, y]] + 1) / (COUNTS[ranked[:, j]] + 1))
            gap, log_ratio = largest[:, y] - largest[:, j], log_p[:, y] - log_p[:, j]
            pairs[:, y] += np.stack([gap, np.full(len(gap), j - y), log_ratio, ratio], axis=1) / (k - 1)
    return ranked, pairs


def test_pairs_are_the_published_ones() -> None:
    logits, _ = drawn()
    ranked, pairs = published_pairs(logits, 3)
    ours, largest, differences = ranked_pairs(torch.from_numpy(logits), torch.from_numpy(np.log1p(COUNTS)), 3)
    np.testing.assert_array_equal(ours, ranked)
    np.testing.assert_array_equal(largest, np.take_along_axis(logits, ranked, axis=1))
    np.testing.assert_allclose(differences, pairs[:, :, [0, 1, 3]], atol=1e-12)


@pytest.mark.parametrize("k", [3, 10])
def test_the_fit_is_the_published_minimum(k: int) -> None:
    """With all four features, found by SciPy without gradients."""
    logits, labels = drawn()
    ranked, pairs = published_pairs(logits, min(k, 5))
    covered = (ranked == labels[:, None]).any(axis=1)
    assert covered.all() == (k == 10)
    largest = np.take_along_axis(logits, ranked, axis=1)

    def scores(both: np.ndarray) -> np.ndarray:
        return largest + both[:5][ranked] + pairs @ both[5:]

    def loss(both: np.ndarray) -> float:
        own = log_softmax(scores(both)[covered], axis=1)[ranked[covered] == labels[covered, None]]
        return float(-own.mean() + 0.01 * (both[:5] ** 2).sum() + 0.001 * (both[5:] ** 2).sum())

    best = minimize(loss, np.zeros(9), method="BFGS", options={"gtol": 1e-7}).x
    fitted = Repair(n_ranked=k).fit(
        torch.from_numpy(logits), torch.from_numpy(labels), torch.from_numpy(np.log1p(COUNTS))
    )
    np.testing.assert_allclose(fitted.offsets, best[:5], atol=1e-4)
    np.testing.assert_allclose(fitted.weights, [best[5] + best[7], best[6], best[8]], atol=1e-4)
    head = RepairedHead(torch.nn.Identity(), fitted.offsets, fitted.weights, torch.from_numpy(np.log1p(COUNTS)), k)
    said = head(torch.from_numpy(logits)).numpy()
    of_ranked = np.take_along_axis(said, ranked, axis=1)
    expected = scores(best)
    np.testing.assert_allclose(of_ranked - of_ranked[:, :1], expected - expected[:, :1], atol=1e-3)
    order = np.argsort(-logits, axis=1)
    behind = np.take_along_axis(said, order[:, k:], axis=1)
    assert np.all(np.diff(np.column_stack([of_ranked.min(axis=1), behind]), axis=1) < 0)


def test_offsets_by_hand() -> None:
    """Equal logits, three samples of class 0 per sample of class 1, a weak penalty: odds of three to one."""
    labels = torch.tensor([0, 0, 0, 1] * 2)
    logits, counts = torch.zeros(8, 2, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    fitted = Repair(offset_penalty=1e-9, pair_penalty=1e-9).fit(logits, labels, counts)
    said = RepairedHead(torch.nn.Identity(), *fitted, counts, 2)(logits)
    np.testing.assert_allclose(said[:, 0] - said[:, 1], log(3), atol=1e-4)


@pytest.mark.parametrize(("n_covered", "changes"), [(4, False), (5, True)])
def test_too_few_samples_change_nothing(n_covered: int, changes: bool) -> None:
    """Samples whose class has the smallest of the three logits are not covered."""
    logits = torch.tensor([[2.0, 1.0, 0.0]] * 20, dtype=torch.float64)
    labels = torch.tensor([1] * n_covered + [2] * (20 - n_covered))
    fitted = Repair(n_ranked=2).fit(logits, labels, torch.zeros(3, dtype=torch.float64))
    assert bool(fitted.offsets.any()) == changes
    assert bool(fitted.weights.any()) == changes


def test_it_is_fitted_on_held_out_images_before_validation_images(tmp_path: Path) -> None:
    trained = untrained_run(tmp_path, head="cosine")
    held_out, plan = images_of_test(trained), EvidencePlan(2)
    on_validation = Repair().correct(replace(trained, validation=held_out), plan)
    assert on_validation.details["fitted_on"] == "validation images"
    on_held_out = Repair().correct(replace(trained, held_out=held_out, validation=held_out.subset([0])), plan)
    assert on_held_out.details["fitted_on"] == "held-out images"
    assert on_held_out.details["samples"] == len(held_out)
    logits = trained.scores(trained.network.head, trained.features(held_out))
    said = scores_of_test(trained, on_held_out)
    before, after = (log_softmax(scores, axis=1)[range(len(said)), held_out.labels].mean() for scores in (logits, said))
    assert after > before
