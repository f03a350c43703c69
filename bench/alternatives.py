"""Alternatives to energyalign: class weights, re-sampling, logit adjustment by hand, vector scaling.

    pip install imbalanced-learn
    python -m bench.alternatives [--splits 3]

Uses the data sets, cuts and models of bench/efficacy.py: long tails of data that scikit-learn ships, measured on
balanced test samples. Times are of `fit`, relative to the plain model. docs/comparison.md has the results.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_sample_weight

from bench.efficacy import LOADERS, MODELS, cut
from energyalign import EnergyAlignedClassifier
from energyalign.core.arrays import Floats, Ints

Predict = Callable[[Floats], Ints]


def _fit(model: Any, x: Floats, y: Ints, weights: Floats | None = None) -> Any:
    pipeline = make_pipeline(StandardScaler(), clone(model))
    return pipeline.fit(x, y, **{f"{pipeline.steps[-1][0]}__sample_weight": weights})


def _log_probabilities(model: Any, x: Floats) -> Floats:
    return np.log(np.maximum(model.predict_proba(x), 1e-12))


def fit_plain(model: Any, x: Floats, y: Ints) -> Predict:
    """Fit the model unchanged."""
    return _fit(model, x, y).predict


def fit_weighted(model: Any, x: Floats, y: Ints) -> Predict:
    """Fit with balanced class weights."""
    return _fit(model, x, y, compute_sample_weight("balanced", y)).predict


def fit_resampled(model: Any, x: Floats, y: Ints, sampler: str) -> Predict:
    """Fit on data re-sampled by imbalanced-learn; SMOTE uses as many neighbours as the rarest class allows."""
    from imblearn.over_sampling import SMOTE, RandomOverSampler

    neighbours = min(5, np.bincount(y).min() - 1)
    chosen = SMOTE(k_neighbors=neighbours, random_state=0) if sampler == "SMOTE" else RandomOverSampler(random_state=0)
    scaler = StandardScaler().fit(x)
    more_x, more_y = chosen.fit_resample(scaler.transform(x), y)
    fitted = clone(model).fit(more_x, more_y)
    return lambda new: fitted.predict(scaler.transform(new))


def fit_adjusted(model: Any, x: Floats, y: Ints) -> Predict:
    """Adjust the logits by hand: subtract the log counts."""
    fitted, log_counts = _fit(model, x, y), np.log(np.bincount(y))
    return lambda new: np.argmax(_log_probabilities(fitted, new) - log_counts, axis=1)


def fit_vector_scaling(model: Any, x: Floats, y: Ints) -> Predict:
    """Fit a scale (not negative) and a bias per class, by balanced cross-entropy on out-of-fold log-probabilities."""
    pipeline = make_pipeline(StandardScaler(), clone(model))
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    scores = np.log(np.maximum(cross_val_predict(pipeline, x, y, cv=folds, method="predict_proba"), 1e-12))
    weights, rows = compute_sample_weight("balanced", y) / len(y), np.arange(len(y))
    n_classes = scores.shape[1]

    def loss(parameters: Floats) -> tuple[float, Floats]:
        scale, bias = np.split(parameters, 2)
        logs = log_softmax(scale * scores + bias, axis=1)
        residual = np.exp(logs)
        residual[rows, y] -= 1
        residual *= weights[:, None]
        return -float(weights @ logs[rows, y]), np.concatenate([(residual * scores).sum(0), residual.sum(0)])

    start = np.concatenate([np.ones(n_classes), -np.log(np.bincount(y))])
    bounds = [(0, None)] * n_classes + [(None, None)] * n_classes
    scale, bias = np.split(minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x, 2)
    fitted = _fit(model, x, y)
    return lambda new: np.argmax(scale * _log_probabilities(fitted, new) + bias, axis=1)


def fit_aligned(model: Any, x: Floats, y: Ints) -> Predict:
    """Fit `EnergyAlignedClassifier` with its defaults."""
    return EnergyAlignedClassifier(make_pipeline(StandardScaler(), clone(model))).fit(x, y).predict


ALTERNATIVES: dict[str, Callable[[Any, Floats, Ints], Predict]] = {
    "the model as it is": fit_plain,
    "class weights": fit_weighted,
    "random oversampling": lambda model, x, y: fit_resampled(model, x, y, "random"),
    "SMOTE": lambda model, x, y: fit_resampled(model, x, y, "SMOTE"),
    "logit adjustment by hand": fit_adjusted,
    "vector scaling": fit_vector_scaling,
    "`EnergyAlignedClassifier`": fit_aligned,
}


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=3, help="cuts of each data set (default: %(default)s)")
    n_splits = parser.parse_args().splits
    warnings.simplefilter("ignore")  # convergence warnings: users' models do not always converge either
    cells = [(data, model) for data in LOADERS for model in MODELS]
    accuracy = {name: np.zeros((len(cells), n_splits)) for name in ALTERNATIVES}
    seconds = {name: np.zeros((len(cells), n_splits)) for name in ALTERNATIVES}
    for row, (data, model) in enumerate(cells):
        for seed in range(n_splits):
            x, y, train, test = cut(data, seed)
            for name, fit in ALTERNATIVES.items():
                started = time.perf_counter()
                predict = fit(MODELS[model], x[train], y[train])
                seconds[name][row, seed] = time.perf_counter() - started
                accuracy[name][row, seed] = 100 * balanced_accuracy_score(y[test], predict(x[test]))
    raw, base = accuracy["the model as it is"].mean(axis=1), seconds["the model as it is"].mean(axis=1)
    print("| | LR | MLP | HGB | RF | mean | worst against raw | time to fit |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name in ALTERNATIVES:
        mean = accuracy[name].mean(axis=1)
        models = [np.mean([mean[i] for i, cell in enumerate(cells) if cell[1] == model]) for model in MODELS]
        time_ratio = np.median(seconds[name].mean(axis=1) / base)
        print(f"| {name} |" + "".join(f" {value:.1f} |" for value in [*models, mean.mean()])
              + f" {(mean - raw).min():+.1f} | {time_ratio:.1f} |")  # fmt: skip


if __name__ == "__main__":
    main()
