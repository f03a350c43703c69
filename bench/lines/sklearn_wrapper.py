"""Prediction through the scikit-learn wrapper."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.linear_model import LogisticRegression

from bench.line import Line, at_most
from bench.measure import alternate
from energyalign import EnergyAlignedClassifier


def lines() -> Iterator[Line]:
    """Beside the estimator that it wraps."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(10, 20))
    labels = rng.choice(10, size=5000, p=np.arange(1, 11) / 55)
    bare = LogisticRegression().fit(centres[labels] + rng.normal(size=(5000, 20)), labels)
    wrapped = EnergyAlignedClassifier(LogisticRegression()).fit(centres[labels] + rng.normal(size=(5000, 20)), labels)
    samples = centres[rng.integers(10, size=1_000_000)] + rng.normal(size=(1_000_000, 20))
    seconds = alternate({"ours": lambda: wrapped.predict(samples), "bare": lambda: bare.predict(samples)}, rounds=15)
    yield Line.of(
        "sklearn wrapper", "predict, 1,000,000 × 20, 10 classes", "LogisticRegression itself", at_most(1.1),
        ours=seconds["ours"], theirs=seconds["bare"],
    )  # fmt: skip
