"""Tau-norm: weights divided by a power of their length, which is chosen on evidence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from untrained_run import images_of_test, scores_of_test, untrained_run

from energyalign.experiments.correctors.tau_norm import TauNorm, rescale
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.engine.outputs import as_evidence, drawn_outputs
from energyalign.experiments.nets.heads import make_head
from energyalign.experiments.nets.network import Network


@pytest.mark.parametrize(
    ("tau", "expected"), [(0.0, [7, 2]), (0.5, [7 / 5**0.5, 2**0.5]), (1, [1.4, 1]), (2, [0.28, 0.5])]
)
def test_by_hand(tau: float, expected: list[float]) -> None:
    """Weights of length 5 and 2; the bias is dropped."""
    head = nn.Linear(2, 2)
    with torch.no_grad():
        head.weight.copy_(torch.tensor([[3.0, 4.0], [0.0, 2.0]]))
        head.bias.copy_(torch.tensor([-50.0, 50.0]))
    logits = rescale(head, tau)(torch.ones(1, 2))
    np.testing.assert_allclose(logits.detach().numpy(), [expected], rtol=1e-6)
    np.testing.assert_array_equal(head.weight.detach(), [[3, 4], [0, 2]])
    assert head.bias is not None


def test_weights_of_length_zero_stay() -> None:
    head = nn.Linear(3, 2)
    nn.init.zeros_(head.weight)
    assert torch.equal(rescale(head, 1.5)(torch.ones(1, 3)), torch.zeros(1, 2))


@pytest.mark.parametrize("kind", ["cosine", "capsule"])
def test_it_does_nothing_to_a_head_that_normalises_its_weights(kind: str) -> None:
    head = make_head(kind, 8, 5)
    features = torch.randn(20, 8)
    for tau in TauNorm().grid:
        torch.testing.assert_close(rescale(head, tau)(features), head(features))


def test_ties_go_to_the_larger_tau(tmp_path: Path) -> None:
    """On a cosine head all tau are equally good."""
    trained = untrained_run(tmp_path, head="cosine")
    corrected = TauNorm().correct(trained, EvidencePlan(2))
    assert corrected.details["tau"] == 2.0
    assert corrected.shifts is None
    np.testing.assert_allclose(
        scores_of_test(trained, corrected),
        trained.scores(trained.network.head, trained.features(images_of_test(trained))),
        atol=1e-4,
    )


def test_tau_is_the_best_on_the_evidence(tmp_path: Path) -> None:
    """The expected tau needs a pass over the evidence for each value; the corrector makes one pass for all."""
    trained, plan, taus = untrained_run(tmp_path), EvidencePlan(30, "one"), (0.0, 1.0, 8.0)
    with torch.no_grad():  # classes with very different lengths of weights, so that tau matters
        trained.network.head.weight *= torch.linspace(3.0, 0.3, 10)[:, None]
    accuracies = []
    for tau in taus:
        network = Network(trained.network.backbone, rescale(trained.network.head, tau))
        evidence = as_evidence(drawn_outputs(network, trained.train, plan, trained.config.seed), trained.train)
        logits = np.concatenate([np.asarray(block.logits) for block in evidence.blocks()])
        accuracies.append(float(np.mean(logits.argmax(1) == evidence.labels)))
    assert len(set(accuracies)) == 3
    corrected = TauNorm(grid=taus).correct(trained, plan)
    best = int(np.argmax(accuracies))
    assert corrected.details == {"tau": taus[best], "chosen_on": "evidence", "accuracy_there": accuracies[best]}
    weight = trained.network.head.weight.detach().numpy()
    scaled = weight / np.linalg.norm(weight, axis=1, keepdims=True) ** taus[best]
    np.testing.assert_allclose(
        scores_of_test(trained, corrected), trained.features(images_of_test(trained)) @ scaled.T, rtol=1e-3, atol=1e-4
    )
    assert TauNorm().reads_evidence


def test_tau_is_chosen_on_validation_images_where_there_are_some(tmp_path: Path) -> None:
    """The test images replace them, with labels that tau = 0 predicts; on the evidence 8 is best."""
    trained, taus = untrained_run(tmp_path), (0.0, 1.0, 8.0)
    with torch.no_grad():
        trained.network.head.weight *= torch.linspace(3.0, 0.3, 10)[:, None]
    assert TauNorm(grid=taus).correct(trained, EvidencePlan(5, "one")).details["tau"] == 8.0
    weight = rescale(trained.network.head, 0.0).weight.detach().numpy()
    labels = (trained.features(images_of_test(trained)) @ weight.T).argmax(axis=1)
    with_images = replace(trained, validation=replace(images_of_test(trained), labels=labels))
    corrected = TauNorm(grid=taus).correct(with_images, EvidencePlan(5, "one"))
    assert corrected.details == {"tau": 0.0, "chosen_on": "validation", "accuracy_there": 1.0}


def test_the_grid_of_the_original() -> None:
    np.testing.assert_allclose(TauNorm().grid, np.linspace(0, 2, 21))
