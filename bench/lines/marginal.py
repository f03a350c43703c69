"""The `marginal` estimator."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from bench.line import Line, at_least
from bench.measure import alternate
from energyalign import Clusters, Evidence
from energyalign.core.arrays import Floats
from energyalign.core.estimators.marginal import Marginal

_SLOPE = 1e-6


def lines() -> Iterator[Line]:
    """Beside the fit that it stands for: the biases of a logistic regression that has nothing else."""
    logits = biased_logits(100_000, 1_000)
    tensor = torch.from_numpy(logits)  # in float32, which reaches slopes of 1e-7

    def ours() -> object:
        return Marginal(tolerance=_SLOPE).energies(Evidence.from_arrays(logits), Clusters.per_class(1_000))

    seconds = alternate({"ours": ours, "LBFGS": lambda: _bias_only_fit(tensor)})
    yield Line.of(
        "marginal estimator", f"100,000 × 1,000, largest slope {_SLOPE:g}",
        "bias-only logistic fit by torch LBFGS, without standard errors", at_least(5),
        ours=seconds["ours"], theirs=seconds["LBFGS"],
    )  # fmt: skip


def biased_logits(n_samples: int, n_classes: int) -> np.ndarray:
    """Of samples of each class in turn, by a model that prefers the first classes."""
    logits = 2.0 * np.random.default_rng(0).standard_normal((n_samples, n_classes), dtype=np.float32)
    logits[np.arange(n_samples), np.arange(n_samples) % n_classes] += 6.0
    logits -= np.linspace(0.0, 4.0, n_classes, dtype=np.float32)
    return logits


def _bias_only_fit(logits: torch.Tensor) -> Floats:
    biases = torch.zeros(logits.shape[1], dtype=logits.dtype, requires_grad=True)
    optimiser = torch.optim.LBFGS(
        [biases], max_iter=200, tolerance_grad=_SLOPE, tolerance_change=0.0, line_search_fn="strong_wolfe"
    )

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        loss = torch.logsumexp(logits + biases, 1).mean() - biases.mean()
        loss.backward()
        return loss

    optimiser.step(closure)
    assert float(biases.grad.abs().max()) <= _SLOPE
    return biases.detach().numpy()
