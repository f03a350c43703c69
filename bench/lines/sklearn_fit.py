"""Fitting through the scikit-learn wrapper, in one thread and with two processes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

from bench.line import Line, at_least, at_most
from bench.measure import ROUNDS, alternate
from energyalign import EnergyAlignedClassifier
from energyalign.core.arrays import Floats, Ints

N_CLASSES, IMBALANCE = 10, 50
# The number of iterations is fixed, so that half of the samples are half of the work.
MODELS: dict[str, Any] = {
    "LogisticRegression": LogisticRegression(max_iter=1000),
    "MLPClassifier": MLPClassifier((64,), max_iter=20, random_state=0),
    "HistGradientBoostingClassifier": HistGradientBoostingClassifier(max_iter=20, random_state=0),
    "RandomForestClassifier": RandomForestClassifier(100, random_state=0),
}


# 16 of 2,000 samples are of the rarest class: too few for fewer than three folds.
FLOORS = {
    "LogisticRegression": 6.5,
    "MLPClassifier": 4.5,
    "HistGradientBoostingClassifier": 4.5,
    "RandomForestClassifier": 4.5,
}


def lines() -> Iterator[Line]:
    """Measure small data, where the cost of aligning counts."""
    yield from fit_lines(2_000, 20, FLOORS, limit="Fits of the wrapper")


def fit_lines(n_samples: int, n_features: int, floors: Mapping[str, float], limit: str) -> Iterator[Line]:
    """Compare each classifier with its own fit."""
    for name, base in MODELS.items():
        fits = {"ours": EnergyAlignedClassifier(base), "bare": base}
        seconds = _time_fits(fits, n_samples, n_features, rounds=15 if n_samples < 10_000 else ROUNDS)
        goal = at_most(1.3 if name == "RandomForestClassifier" else 2.5)
        yield Line.of(
            "sklearn wrapper, fit", f"{name}, {n_samples:,} × {n_features}, {N_CLASSES} classes, one thread",
            "the classifier's own fit", goal, ours=seconds["ours"], theirs=seconds["bare"], limit=limit,
            floor=floors.get(name, 0.0),
        )  # fmt: skip


def job_lines(n_samples: int, n_features: int) -> Iterator[Line]:
    """Compare two processes with one thread each with one process."""
    base = MODELS["MLPClassifier"]
    fits = {"two": EnergyAlignedClassifier(base, n_jobs=2), "one": EnergyAlignedClassifier(base, n_jobs=1)}
    seconds = _time_fits(fits, n_samples, n_features, rounds=ROUNDS)
    yield Line.of(
        "sklearn wrapper, fit", f"MLPClassifier, {n_samples:,} × {n_features}, {N_CLASSES} classes, n_jobs=2",
        "n_jobs=1, one thread", at_least(1.7), ours=seconds["two"], theirs=seconds["one"],
    )  # fmt: skip


def _time_fits(models: dict[str, Any], n_samples: int, n_features: int, rounds: int) -> dict[str, list[float]]:
    X, y = long_tail(n_samples, n_features)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of iterations that were not enough
        return alternate({name: partial(_fit_copy, model, X, y) for name, model in models.items()}, rounds=rounds)


def _fit_copy(model: Any, X: Floats, y: Ints) -> None:
    clone(model).fit(X, y)


def long_tail(n_samples: int, n_features: int) -> tuple[Floats, Ints]:
    """Draw data whose largest class is 50 times the size of the smallest."""
    shares = np.geomspace(IMBALANCE, 1, N_CLASSES)
    return make_classification(
        n_samples, n_features, n_informative=10, n_classes=N_CLASSES, n_clusters_per_class=1,
        weights=list(shares / shares.sum()), class_sep=0.8, random_state=0,
    )  # fmt: skip
