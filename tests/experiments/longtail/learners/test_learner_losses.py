"""Losses of all learners for given logits: the formula with its hyper-parameters, in NumPy.

Counts are 16, 4 and 1, so that n^(-1/4) is 1/2, 1/sqrt(2) and 1.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tiny_setting import TinyBatch, says, tiny_setting

from energyalign.experiments.longtail.learners import CrossEntropy, find_learner

COUNTS = np.array([16.0, 4.0, 1.0])
LOGITS = np.array([[2.0, 0.5, -1.0], [0.0, 1.0, 0.5], [1.0, 1.0, 0.0], [-0.5, 0.0, 1.5]])
LABELS = np.array([0, 1, 2, 2])
BATCH = TinyBatch(torch.zeros(4, 3, 8, 8), torch.from_numpy(LABELS))


def loss_of(learner: CrossEntropy, epoch: int, logits: np.ndarray = LOGITS) -> float:
    setting = tiny_setting(learner)
    return float(learner.loss(setting)(says(torch.from_numpy(logits).float()), BATCH, epoch))


def entropies(logits: np.ndarray, labels: np.ndarray = LABELS) -> np.ndarray:
    """Return the cross-entropy of each sample."""
    return np.log(np.exp(logits).sum(1)) - logits[np.arange(len(labels)), labels]


def late_weights() -> np.ndarray:
    weights = (1 - 0.9999) / (1 - 0.9999**COUNTS)
    return weights * 3 / weights.sum()


def test_weights_of_this_example() -> None:
    """Nearly 1/16, 1/4, 1, rescaled by 3 over their sum 21/16."""
    np.testing.assert_allclose(late_weights(), np.array([1, 4, 16]) / 7, rtol=2e-3)


def test_focal() -> None:
    ce = entropies(LOGITS)
    assert loss_of(find_learner("focal"), 1) == pytest.approx(((1 - np.exp(-ce)) * ce).mean())


def test_ce_drw_before_and_after_the_change() -> None:
    learner, ce = find_learner("ce-drw"), entropies(LOGITS)
    for epoch in (1, 160):
        assert loss_of(learner, epoch) == pytest.approx(ce.mean())
    for epoch in (161, 200):
        assert loss_of(learner, epoch) == pytest.approx(np.average(ce, weights=late_weights()[LABELS]))


def test_ldam_drw_before_and_after_the_change() -> None:
    """Margins are 0.25, 0.3536 and 0.5 in units of the cosine; logits are 30 cosines."""
    learner = find_learner("ldam-drw")
    margins = np.array([0.25, 0.25 * math.sqrt(2), 0.5])
    ce = entropies(30 * (LOGITS / 30 - np.eye(3)[LABELS] * margins))
    assert loss_of(learner, 160) == pytest.approx(ce.mean(), rel=1e-6)
    assert loss_of(learner, 161) == pytest.approx(np.average(ce, weights=late_weights()[LABELS]), rel=1e-6)


def test_la_loss() -> None:
    """The odds are multiplied by 16, 4 and 1."""
    assert loss_of(find_learner("la-loss"), 1) == pytest.approx(entropies(LOGITS + np.log(COUNTS)).mean())


def test_la_loss_ldam_is_the_pairwise_margin_loss() -> None:
    """log(1 + sum over the others of e^(D_yj + z_j - z_y)), D_yj = log(pi_j / pi_y) + 30 * LDAM's margin of y."""
    ldam, expected = [0.25, 0.25 * math.sqrt(2), 0.5], 0.0
    for z, y in zip(LOGITS, LABELS, strict=True):
        others = [math.exp(math.log(COUNTS[j] / COUNTS[y]) + 30 * ldam[y] + z[j] - z[y]) for j in range(3) if j != y]
        expected += math.log(1 + sum(others)) / len(LABELS)
    assert loss_of(find_learner("la-loss-ldam"), 1) == pytest.approx(expected, rel=1e-6)
    assert loss_of(find_learner("la-loss-ldam"), 200) == pytest.approx(expected, rel=1e-6)  # never re-weighted


def test_lade() -> None:
    """The weight of the regulariser is 0.1 and its penalty 0.1; on iNaturalist 0.05 and 0.5."""
    prior, logits = COUNTS / COUNTS.sum(), LOGITS
    means = np.array([logits[k == LABELS, k].mean() for k in range(3)])
    log_means = np.log(np.exp(logits).mean(axis=0) / (3 * prior))
    adjusted = entropies(logits + np.log(COUNTS)).mean()
    for cell, weight, penalty in (("cifar10-lt-100", 0.1, 0.1), ("inaturalist-90", 0.05, 0.5)):
        added = (prior * (log_means + penalty * log_means**2 - means)).sum()
        loss = find_learner("lade").loss(tiny_setting(find_learner("lade"), preset=cell))
        said = loss(says(torch.from_numpy(logits).float()), BATCH, 1)
        assert float(said) == pytest.approx(adjusted + weight * added, rel=1e-6)


def test_cb_focal() -> None:
    right = 1 / (1 + np.exp(-np.where(np.eye(3)[LABELS] == 1, LOGITS, -LOGITS)))
    terms = -(1 - right) * np.log(right)
    assert loss_of(find_learner("cb-focal"), 1) == pytest.approx((late_weights()[LABELS] * terms.sum(1)).mean())


@pytest.mark.parametrize(
    "name", ["focal", "ce-drw", "ldam-drw", "la-loss", "la-loss-ldam", "cb-focal", "ce-drs", "lade"]
)
def test_the_loss_falls_when_the_truth_gains(name: str) -> None:
    learner = find_learner(name)
    for epoch in (1, 200):
        assert loss_of(learner, epoch, LOGITS + 0.1 * np.eye(3)[LABELS]) < loss_of(learner, epoch)


@pytest.mark.parametrize(("name", "scale"), [("ldam-drw", 30.0), ("la-loss-ldam", 30.0), ("la-loss", 16.0)])
def test_logits_of_a_cosine_head_have_its_scale(name: str, scale: float) -> None:
    learner = find_learner(name)
    network = learner.network(tiny_setting(learner)).eval()
    image = torch.rand(1, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        network.head.weight[:] = network.backbone(image)  # the cosine with each of them is 1
    np.testing.assert_allclose(network(image).detach(), scale, rtol=1e-5)


def test_what_is_not_said_is_as_in_cross_entropy() -> None:
    plain = CrossEntropy()
    for name in ("focal", "mixup", "manifold-mixup", "la-loss", "lade"):
        learner = find_learner(name)
        assert learner.head is None
        assert tiny_setting(learner).config.recipe == tiny_setting(plain).config.recipe
