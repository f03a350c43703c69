"""Prediction through the scikit-learn wrapper: many rows at once, and few rows per call as in a service."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from sklearn.linear_model import LogisticRegression

from bench.line import Line, at_most
from bench.measure import alternate
from energyalign import EnergyAlignedClassifier
from energyalign.core.arrays import Floats

CALLS = 500  # of few rows, in one measurement


def lines() -> Iterator[Line]:
    """Compare with the wrapped estimator."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(10, 20))
    labels = rng.choice(10, size=5000, p=np.arange(1, 11) / 55)
    bare = LogisticRegression().fit(centres[labels] + rng.normal(size=(5000, 20)), labels)
    wrapped = EnergyAlignedClassifier(LogisticRegression()).fit(centres[labels] + rng.normal(size=(5000, 20)), labels)
    samples = centres[rng.integers(10, size=1_000_000)] + rng.normal(size=(1_000_000, 20))
    for n_rows, n_calls, goal in ((1_000_000, 1, 1.1), (100, CALLS, 1.2), (10, CALLS, 1.2), (1, CALLS, 1.2)):
        rows = samples[:n_rows]
        works = {"ours": _calls(wrapped, rows, n_calls), "bare": _calls(bare, rows, n_calls)}
        seconds = alternate(works, rounds=15)
        yield Line.of(
            "sklearn wrapper", f"predict, {n_rows:,} × 20, 10 classes{f', {n_calls} calls' if n_calls > 1 else ''}",
            "LogisticRegression itself", at_most(goal), ours=seconds["ours"], theirs=seconds["bare"],
        )  # fmt: skip


def _calls(model: EnergyAlignedClassifier | LogisticRegression, rows: Floats, n: int) -> Callable[[], object]:
    def run() -> None:
        for _ in range(n):
            model.predict(rows)

    return run
