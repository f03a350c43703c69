"""Two classes: `scoring=` and `costs=` beside scikit-learn's TunedThresholdClassifierCV.

    python -m bench.thresholds [--splits 5]

Both tune one threshold on out-of-fold scores of five folds, so both fit a classifier six times. F1 is computed for the
rare class; missing one of its samples costs 10, a false alarm 1. docs/comparison.md has the results.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, make_scorer
from sklearn.model_selection import StratifiedShuffleSplit, TunedThresholdClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from energyalign import EnergyAlignedClassifier

COSTS = np.array([[0.0, 1.0], [10.0, 0.0]])
MODELS: dict[str, Any] = {
    "LR": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    "RF": RandomForestClassifier(100, random_state=0),
    "HGB": HistGradientBoostingClassifier(max_iter=50, random_state=0),
}


def mean_cost(y_true: Any, y_pred: Any) -> float:
    """Return the mean cost of the predictions."""
    return float(COSTS[y_true, y_pred].mean())


def data_sets() -> Iterator[tuple[str, Any, Any]]:
    """Yield data whose rare class is 1: digit 8, a tenth of the malignant cells, 5 and 2 % of synthetic samples."""
    X, y = load_digits(return_X_y=True)
    yield "digits: 8", X, (y == 8).astype(int)
    X, y = load_breast_cancer(return_X_y=True)
    kept = (y == 1) | (np.cumsum(y == 0) % 6 == 0)
    yield "breast cancer", X[kept], (y[kept] == 0).astype(int)
    for share in (0.05, 0.02):
        X, y = make_classification(
            4000, 20, n_informative=6, weights=[1 - share], flip_y=0.01, class_sep=0.8, random_state=0
        )
        yield f"synthetic: {share:.0%}", X, y


def measure(splits: int) -> dict[tuple[str, str, str], list[float]]:
    """Return scores on test samples by (data set, model, method)."""
    found: dict[tuple[str, str, str], list[float]] = {}
    cost_scorer = make_scorer(mean_cost, greater_is_better=False)
    for name, X, y in data_sets():
        for train, test in StratifiedShuffleSplit(splits, test_size=0.4, random_state=0).split(X, y):
            for model_name, model in MODELS.items():
                methods = {
                    "raw": model,
                    "F1: scikit-learn": TunedThresholdClassifierCV(model, scoring="f1", cv=5),
                    "F1: energyalign": EnergyAlignedClassifier(model, scoring="f1"),
                    "cost: scikit-learn": TunedThresholdClassifierCV(model, scoring=cost_scorer, cv=5),
                    "cost: energyalign": EnergyAlignedClassifier(model, costs=COSTS),
                }
                for method, classifier in methods.items():
                    started = time.perf_counter()
                    predicted = classifier.fit(X[train], y[train]).predict(X[test])
                    seconds = time.perf_counter() - started
                    scores = [100 * f1_score(y[test], predicted), mean_cost(y[test], predicted), seconds]
                    for key, value in zip(("F1", "cost", "s"), scores, strict=True):
                        found.setdefault((f"{name}, {model_name}", method, key), []).append(value)
    return found


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=5)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    found = measure(arguments.splits)
    cells = list(dict.fromkeys(cell for cell, _, _ in found))
    columns = [("raw", "F1"), ("F1: scikit-learn", "F1"), ("F1: energyalign", "F1"),
               ("raw", "cost"), ("cost: scikit-learn", "cost"), ("cost: energyalign", "cost")]  # fmt: skip
    print("| data, model |" + "".join(f" {m if k in m else f'{m} ({k})'} |" for m, k in columns))
    print("|---|" + "---|" * len(columns))
    for cell in cells:
        row = [np.mean(found[cell, method, key]) for method, key in columns]
        print(f"| {cell} |" + "".join(f" {v:.1f} |" if i < 3 else f" {v:.3f} |" for i, v in enumerate(row)))
    mean = [np.mean([np.mean(found[cell, method, key]) for cell in cells]) for method, key in columns]
    print("| mean |" + "".join(f" {v:.1f} |" if i < 3 else f" {v:.3f} |" for i, v in enumerate(mean)))
    for aim in ("F1", "cost"):
        ours, theirs = (
            sum(np.sum(found[cell, f"{aim}: {who}", "s"]) for cell in cells) for who in ("energyalign", "scikit-learn")
        )
        print(f"time for {aim}: {ours / theirs:.2f} of scikit-learn's")


if __name__ == "__main__":
    main()
