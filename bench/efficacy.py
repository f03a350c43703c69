"""Benchmark of `auto`: its gain and its safety, on small real data sets and on the logits of stored runs.

    make efficacy
    python -m bench.efficacy --only wine iris --splits 1 --cells

Data sets that scikit-learn ships are cut to long tails. Each model is trained on them plainly and with class-balanced
weights; `auto` is fitted on out-of-fold and on training evidence and measured on balanced test samples, beside the raw
model and each candidate. For every stored long-tailed run in results/ it is fitted on the stored
training evidence, and on one half of the test images, and measured on the other half. A cell is a mean over splits.
`best` is the best of raw and the candidates on the test samples, so no method can quite reach it. docs/efficacy.md has
the results.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import StratifiedKFold
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.parallel import Parallel, delayed

from energyalign import EnergyAligner, EnergyAlignError
from energyalign.core.arrays import Floats, Ints
from energyalign.core.evidence import EvidenceKind
from energyalign.sklearn.scores import class_logits

RESULTS = Path(__file__).parents[1] / "results"
LOADERS: dict[str, Callable[..., Any]] = {
    "digits": load_digits, "wine": load_wine, "breast_cancer": load_breast_cancer, "iris": load_iris,
}  # fmt: skip
TEST_SAMPLES = {"digits": 60, "wine": 20, "breast_cancer": 80, "iris": 20}  # of each class
MODELS: dict[str, Any] = {
    "LR": LogisticRegression(max_iter=1000),
    "MLP": MLPClassifier((64,), max_iter=200, random_state=0),
    "HGB": HistGradientBoostingClassifier(max_iter=50, random_state=0),
    "RF": RandomForestClassifier(100, random_state=0),
}
MIN_COUNT, N_FOLDS = 5, 5
HELD_OUT = (2, 10, 50)  # images of each class
CANDIDATES: dict[str, dict[str, Any]] = {
    "prior": {"estimator": "prior"},
    "shrunk": {"estimator": "shrunk"},
    "marginal/monotone": {"estimator": "marginal", "clusters": "monotone"},
    "marginal/per-class": {"estimator": "marginal", "clusters": "per-class"},
    "lse/monotone": {"estimator": "lse", "clusters": "monotone"},
    "lse/per-class": {"estimator": "lse", "clusters": "per-class"},
}


class Cell(NamedTuple):
    """A cell of the benchmark: `group` is its line of the table, `name` identifies it within the group."""

    group: tuple[str, EvidenceKind, str]  # data, evidence, base
    name: str


class Scored(NamedTuple):
    """Balanced accuracy on test samples, in per cent, and whether the estimate came with a warning."""

    accuracy: float
    warned: bool = False


@dataclass(frozen=True, eq=False)
class Split:
    """Evidence and test samples for one cell."""

    cell: Cell
    logits: Floats
    labels: Ints
    counts: Floats
    test_logits: Floats
    test_labels: Ints
    folds: Ints | None = None


def cut(name: str, seed: int) -> tuple[Floats, Ints, Ints, Ints]:
    """Return features, labels, and rows of a long tail and of a balanced test sample; any class may be the rarest."""
    features, labels = LOADERS[name](return_X_y=True)
    random = np.random.default_rng(seed)
    rows = [random.permutation(np.flatnonzero(labels == k)) for k in random.permutation(labels.max() + 1)]
    n_test = TEST_SAMPLES[name]
    counts = np.geomspace(min(map(len, rows)) - n_test, MIN_COUNT, len(rows)).astype(int)
    train = np.concatenate([own[n_test : n_test + count] for own, count in zip(rows, counts, strict=True)])
    return features, labels, train, np.concatenate([own[:n_test] for own in rows])


def tabular_splits(name: str, seed: int, models: Sequence[str] = tuple(MODELS)) -> Iterator[Split]:
    """Yield out-of-fold and training evidence of every model, trained plainly and with class-balanced weights."""
    features, labels, train, test = cut(name, seed)
    x, y, x_test = features[train], labels[train], features[test]
    counts = np.bincount(y).astype(np.float64)
    folds = np.full(len(y), -1)
    for fold, (_, out) in enumerate(StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed).split(x, y)):
        folds[out] = fold
    for model in models:
        for base in ("plain", "balanced"):
            fitted = _train(model, base, x, y)
            test_logits = class_logits(fitted, x_test, fitted.classes_)
            out_of_fold = np.empty((len(y), len(counts)))
            for fold in range(N_FOLDS):
                known, new = folds != fold, folds == fold
                out_of_fold[new] = class_logits(_train(model, base, x[known], y[known]), x[new], fitted.classes_)
            cell = Cell(("scikit-learn", "out-of-fold", base), f"{name} {model}")
            scored = Split(cell, out_of_fold, y, counts, test_logits, labels[test], folds)
            cell = Cell(("scikit-learn", "training", base), cell.name)
            yield from (scored, replace(scored, cell=cell, logits=class_logits(fitted, x, fitted.classes_), folds=None))


def _train(model: str, base: str, x: Floats, y: Ints) -> Any:
    weights = None if base == "plain" else compute_sample_weight("balanced", y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # convergence warnings: users' models do not always converge either
        pipeline = Pipeline([("scale", StandardScaler()), ("model", clone(MODELS[model]))])
        return pipeline.fit(x, y, model__sample_weight=weights)


def stored_splits(results: Path, n_draws: int) -> Iterator[Split]:
    """Yield training evidence of long-tailed runs (evidence-POLICY-N.safetensors), and held-out evidence."""
    from energyalign.experiments.engine.stored import find_runs
    from energyalign.experiments.train.tensor_file import load_arrays

    for run in find_runs([results]) if any(results.glob("**/evidence-*.safetensors")) else []:
        files = sorted(run.path.glob("evidence-*.safetensors"))
        if run.in_steps or not files:
            continue
        learner: Any = run.config.values["learner"]
        base = "plain" if learner["kind"] == "CrossEntropy" else learner["kind"]
        name = str(run.path.relative_to(results))
        counts, labels = run.counts().astype(np.float64), run.outputs().labels
        logits = run.outputs().logits.astype(np.float64)
        for file in files:
            arrays = load_arrays(file)
            cell = Cell(("results", "training", base), f"{name} {file.stem.removeprefix('evidence-')}")
            yield Split(
                cell, arrays["logits"].astype(np.float64), arrays["labels"].astype(np.int64), counts, logits, labels
            )
        for draw in range(n_draws):
            random = np.random.default_rng(draw)
            rows = [random.permutation(np.flatnonzero(labels == k)) for k in range(len(counts))]
            test = np.concatenate([own[len(own) // 2 :] for own in rows])
            for size in HELD_OUT:
                drawn = np.concatenate([own[: min(size, len(own) // 2)] for own in rows])
                cell = Cell(("results", "held-out", base), f"{name} {size} of each class")
                yield Split(cell, logits[drawn], labels[drawn], counts, logits[test], labels[test])


def measure(split: Split) -> dict[str, Scored]:
    """Score the raw model, every candidate that can be fitted, and `auto`."""

    def score(shifts: Floats | float, *, warned: bool = False) -> Scored:
        predicted = np.argmax(split.test_logits + shifts, axis=1)
        return Scored(100 * float(balanced_accuracy_score(split.test_labels, predicted)), warned)

    found = {"raw": score(0.0)}
    for name, options in {**CANDIDATES, "auto": {}}.items():
        aligner = EnergyAligner(evidence=split.cell.group[1], **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are kept in `concerns`
            try:
                shifts = aligner.fit(split.logits, split.labels, counts=split.counts, groups=split.folds).shifts_
            except EnergyAlignError:
                if name == "auto":
                    raise
                continue
        found[name] = score(shifts.values, warned=bool(shifts.concerns))
    return found


@dataclass(frozen=True)
class Row:
    """One cell, averaged over its splits."""

    cell: Cell
    raw: float
    auto: float
    best: float
    best_name: str
    silent: bool  # whether a split lost more than a point without a warning

    @property
    def lost(self) -> bool:
        """Return whether aligning cost more than a point."""
        return self.auto < self.raw - 1

    @classmethod
    def of(cls, cell: Cell, splits: Sequence[dict[str, Scored]]) -> Row:
        """Average over splits, leaving out candidates that failed on some split."""
        names = [name for name in splits[0] if all(name in split for split in splits)]
        mean = {name: float(np.mean([split[name].accuracy for split in splits])) for name in names}
        auto = mean.pop("auto")
        best = max(mean, key=mean.__getitem__)
        silent = any(
            split["auto"].accuracy < split["raw"].accuracy - 1 and not split["auto"].warned for split in splits
        )
        return cls(cell, mean["raw"], auto, mean[best], best, silent)


HEADER = (
    "| data | evidence | base | cells | raw | auto | gain | worst | lost > 1 (unwarned) | regret | worst | within .3 "
    "|\n|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
)


def table_line(group: tuple[str, str, str], rows: Sequence[Row]) -> str:
    """Return a line of the table, in per cent of balanced accuracy."""
    raw, auto, best = (np.array([getattr(row, name) for row in rows]) for name in ("raw", "auto", "best"))
    lost = [row for row in rows if row.lost]
    values = (
        f"{len(rows)}", f"{raw.mean():.1f}", f"{auto.mean():.1f}", f"{(auto - raw).mean():+.2f}",
        f"{(auto - raw).min():+.1f}", f"{len(lost)} ({sum(row.silent for row in lost)})",
        f"{(auto - best).mean():+.2f}", f"{(auto - best).min():+.1f}", f"{100 * np.mean(auto >= best - 0.3):.0f} %",
    )  # fmt: skip
    return f"| {' | '.join((*group, *values))} |"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.efficacy", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--only", nargs="+", choices=LOADERS, default=list(LOADERS), help="these data sets of scikit-learn")
    add("--models", nargs="+", choices=MODELS, default=list(MODELS), help="these models")
    add("--splits", type=int, default=3, help="cuts of each data set, draws of held-out images (default: %(default)s)")
    add("--results", type=Path, default=RESULTS, help="folder of stored runs (default: results/ of this project)")
    add("--jobs", type=int, default=-1, help="processes (default: as many as there are cores)")
    add("--cells", action="store_true", help="print every cell")
    options = parser.parse_args(arguments)
    start = time.perf_counter()
    stored = list(stored_splits(options.results, options.splits))
    if not stored:
        print(f"No stored run with evidence in {options.results}: only data of scikit-learn.")
    tasks = [
        delayed(_measure_tabular)(name, seed, options.models) for name in options.only for seed in range(options.splits)
    ]
    tasks += [delayed(_measure_all)([split]) for split in stored]
    splits: dict[Cell, list[dict[str, Scored]]] = {}
    for part in Parallel(n_jobs=options.jobs)(tasks):
        for cell, found in part:
            splits.setdefault(cell, []).append(found)
    rows = [Row.of(cell, found) for cell, found in splits.items()]
    if options.cells:
        for row in rows:
            note = "" if not row.lost else "  lost, unwarned" if row.silent else "  lost, warned"
            print(f"{' '.join(row.cell.group)}: {row.cell.name}: raw {row.raw:.1f}, auto {row.auto:.1f}, "
                  f"best {row.best:.1f} ({row.best_name}){note}")  # fmt: skip
    print(HEADER)
    for group in sorted({row.cell.group for row in rows}, key=lambda group: (group[0], group[1], group[2] != "plain")):
        print(table_line(group, [row for row in rows if row.cell.group == group]))
    print(f"In {(time.perf_counter() - start) / 60:.1f} minutes.")
    return 0


def _measure_all(splits: Iterable[Split]) -> list[tuple[Cell, dict[str, Scored]]]:
    return [(split.cell, measure(split)) for split in splits]


def _measure_tabular(name: str, seed: int, models: Sequence[str]) -> list[tuple[Cell, dict[str, Scored]]]:
    return _measure_all(tabular_splits(name, seed, models))


if __name__ == "__main__":
    raise SystemExit(main())
