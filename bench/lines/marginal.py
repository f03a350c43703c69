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
    """Compare with the equivalent fit of a logistic regression that has only biases."""
    yield _line(1_000, 10)
    yield _line(5_000, 100)
    yield _line(5_000, 1_000, limit="Marginal", floor=0.8)
    yield _line(20_000, 1_000)
    yield _line(20_000, 8_142)
    yield _line(100_000, 1_000, times=5)


def _line(n_samples: int, n_classes: int, *, times: float = 3, limit: str = "", floor: float = 0.0) -> Line:
    logits = biased_logits(n_samples, n_classes)
    tensor = torch.from_numpy(logits)  # in float32, which reaches gradients of 1e-7

    def ours() -> object:
        return Marginal(tolerance=_SLOPE).energies(Evidence.from_arrays(logits), Clusters.per_class(n_classes))

    seconds = alternate({"ours": ours, "LBFGS": lambda: _bias_only_fit(tensor)})
    return Line.of(
        "marginal estimator", f"{n_samples:,} × {n_classes:,}, largest slope {_SLOPE:g}",
        "bias-only logistic fit by torch LBFGS, without standard errors", at_least(times),
        ours=seconds["ours"], theirs=seconds["LBFGS"], limit=limit, floor=floor,
    )  # fmt: skip


def biased_logits(n_samples: int, n_classes: int) -> np.ndarray:
    """Return logits of a model that prefers the first classes, for samples of each class in turn."""
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
