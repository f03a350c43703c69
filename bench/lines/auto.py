"""`auto` on labelled samples that the model was not trained on."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np

from bench.line import Line, at_most
from bench.lines.marginal import biased_logits
from bench.measure import alternate
from energyalign import Evidence, UntrustedEstimateWarning
from energyalign.core.fitting import fit_shifts
from energyalign.datasets import load_cifar100_lt


def lines() -> Iterator[Line]:
    """Compare with one of the estimators that `auto` chooses from."""
    real = load_cifar100_lt()
    yield _line("CIFAR-100-LT", real.evidence, real.evidence_labels, real.counts)
    yield made_up(5_000, 100)
    yield made_up(20_000, 1_000)


def made_up(n_samples: int, n_classes: int) -> Line:
    """Draw logits of a model that prefers the first classes."""
    counts = np.geomspace(1_000, 5, n_classes)
    return _line("made up", biased_logits(n_samples, n_classes), np.arange(n_samples) % n_classes, counts)


def _line(name: str, logits: np.ndarray, labels: np.ndarray, counts: np.ndarray) -> Line:
    def fit(estimator: str, clusters: str) -> object:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UntrustedEstimateWarning)
            evidence = Evidence.from_arrays(logits, labels, counts=counts, kind="held-out")
            return fit_shifts(evidence, estimator=estimator, clusters=clusters)

    seconds = alternate({"auto": lambda: fit("auto", "auto"), "marginal": lambda: fit("marginal", "per-class")})
    n_samples, n_classes = logits.shape
    return Line.of(
        "auto", f"{name}, {n_samples:,} × {n_classes:,}, labelled, held out", "marginal per class, same evidence",
        at_most(3), ours=seconds["auto"], theirs=seconds["marginal"],
    )  # fmt: skip
