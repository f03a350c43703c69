"""Accuracy of EnergyAlignedClassifier with its default evidence, compared with five folds, on real data.

    OMP_NUM_THREADS=1 python -m bench.wrapper_evidence
    OMP_NUM_THREADS=1 python -m bench.wrapper_evidence --tables FOLDER --splits 3

Data sets that scikit-learn ships are cut to long tails, as for `make efficacy`. Other tables are CSV files in a folder:
numbers without a header, the class in the last column; half of the samples are for testing. For each model it prints
the balanced accuracy on test samples, in per cent, of the raw model and with five folds, and the difference between the
default and five folds, with its standard error over data sets and splits.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bench.efficacy import LOADERS, MODELS, cut
from energyalign import EnergyAlignedClassifier
from energyalign.core.arrays import Floats, Ints

MIN_SAMPLES = 8  # samples of a class in a table, half of them for training


class Problem(NamedTuple):
    """Training and test samples."""

    X: Floats
    y: Ints
    X_test: Floats
    y_test: Ints


class Scored(NamedTuple):
    """Balanced accuracy in per cent, and the time to fit relative to the raw model."""

    raw: float
    five: float
    default: float
    time_five: float
    time_default: float


def problems(names: Sequence[str], tables: Sequence[Path], n_splits: int) -> Iterator[tuple[str, Problem]]:
    """Yield every split of every data set."""
    for seed in range(n_splits):
        for name in names:
            X, y, train, test = cut(name, seed)
            train = np.random.default_rng(seed).permutation(train)
            yield name, Problem(X[train], y[train], X[test], y[test])
        for path in tables:
            X, y = _read(path)
            X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=seed)
            yield path.stem, Problem(X_train, y_train, X_test, y_test)


def _read(path: Path) -> tuple[Floats, Ints]:
    with path.open() as stream:
        rows = [row for row in csv.reader(stream) if row]
    X, labels = np.array([row[:-1] for row in rows], dtype=np.float64), np.array([row[-1] for row in rows])
    classes, counts = np.unique(labels, return_counts=True)
    kept = np.isin(labels, classes[counts >= MIN_SAMPLES])
    return X[kept], np.unique(labels[kept], return_inverse=True)[1]


def measure(model: Any, problem: Problem) -> Scored:
    """Score the raw model, five folds, and the default."""
    found = []
    for each in (clone(model), EnergyAlignedClassifier(model, cv=5), EnergyAlignedClassifier(model)):
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            each.fit(problem.X, problem.y)
        seconds = time.perf_counter() - start
        found.append((100 * float(balanced_accuracy_score(problem.y_test, each.predict(problem.X_test))), seconds))
    (raw, alone), (five, slow), (default, fast) = found
    return Scored(raw, five, default, slow / alone, fast / alone)


def summarise(name: str, scores: Sequence[Scored]) -> str:
    """Return one line of the table."""
    difference = np.array([score.default - score.five for score in scores])
    error = difference.std(ddof=1) / np.sqrt(len(scores)) if len(scores) > 1 else np.nan
    raw, five, *_ = np.mean(scores, axis=0)
    *_, slow, fast = np.median(scores, axis=0)
    return (
        f"| {name} | {len(scores)} | {raw:.1f} | {five:.1f} | {difference.mean():+.2f} ± {error:.2f} "
        f"| {slow:.1f}× | {fast:.1f}× |"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.wrapper_evidence", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add = parser.add_argument
    add("--only", nargs="+", choices=LOADERS, default=list(LOADERS), help="these data sets of scikit-learn")
    add("--tables", type=Path, metavar="FOLDER", help="CSV files to measure too")
    add("--models", nargs="+", choices=MODELS, default=list(MODELS), help="these models")
    add("--splits", type=int, default=10, help="splits of each data set (default: %(default)s)")
    options = parser.parse_args(arguments)
    tables = [] if options.tables is None else sorted(options.tables.glob("*.csv"))
    scores: dict[str, list[Scored]] = {name: [] for name in options.models}
    for _, problem in problems(options.only, tables, options.splits):
        for name in options.models:
            # A forest needs no scaling, and has out-of-bag scores only outside a pipeline.
            model = MODELS[name] if name == "RF" else make_pipeline(StandardScaler(), MODELS[name])
            scores[name].append(measure(model, problem))
    print("| model | fits | raw | 5 folds | default less 5 folds | time, 5 folds | time, default |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, found in scores.items():
        print(summarise(name, found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
