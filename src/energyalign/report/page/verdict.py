"""Results at the top of the page of runs: raw and aligned balanced accuracy and what aligning cost."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from energyalign.core.arrays import Floats
from energyalign.core.errors import EnergyAlignError, count_of
from energyalign.experiments.engine.row import HEADLINE, Row
from energyalign.report.page.sentences import describe_changes
from energyalign.report.tables.model import Cell, PaperTable
from energyalign.report.trainings import ALIGNED, AS_TRAINED, Training

_MAX_TRAININGS = 3
"""Trainings of a cell that get a headline each."""
_MIN_CHANGE = 0.05
"""Percentage points; a smaller change prints as 0.0."""


def results_of(trainings: Sequence[Training], comparisons: Mapping[Training, PaperTable]) -> list[tuple[str, str]]:
    """Return headlines with details: one for each training with rows of raw and ea, or one for a whole cell.

    Parameters
    ----------
    trainings : sequence of Training
    comparisons : mapping from Training to PaperTable
        Energy aligning against the raw network, from `comparison_table`.
    """
    results = []
    for cell in dict.fromkeys(training.cell for training in trainings):
        of_cell = [training for training in trainings if training.cell == cell]
        both = [training for training in of_cell if _pairs(training)]
        if not both:
            results.append((f"{cell}: no training has rows of both {AS_TRAINED} and {ALIGNED} yet.", ""))
        elif len(both) <= _MAX_TRAININGS:
            for training in both:
                name = f"{cell}, {training.label}" if len(trainings) > 1 else ""
                results.append((_headline(training, name, comparisons.get(training)), _details(training)))
        else:
            results.append(_summary(cell, both))
    return results


def _pairs(training: Training) -> list[tuple[Row, Row]]:
    """Return the raw and the aligned row of each seed that has both."""
    aligned = {row.seed: row for row in training.rows_of(ALIGNED)}
    return [(row, aligned[row.seed]) for row in training.rows_of(AS_TRAINED) if row.seed in aligned]


def _headline(training: Training, name: str, comparison: PaperTable | None) -> str:
    when = f" after step {training.step} of {training.runs[0].n_steps}" if training.in_steps else ""
    subject = f"{name}: balanced accuracy" if name else "Balanced accuracy"
    n_seeds = len(_pairs(training))
    notes, unclear = [count_of(n_seeds, "seed")], ""
    if comparison is not None:
        *_, low, high = (cell.mean or 0.0 for cell in comparison.lines[-1].cells[:6])
        notes.append(f"95 % interval of the gain: {low:+.1f} to {high:+.1f}")
        if low <= 0 <= high:
            unclear = f" The change is not clear {f'over {n_seeds} seeds' if n_seeds > 1 else 'on these test images'}."
    return f"{subject} {_change(training, HEADLINE)} with energy aligning{when} ({'; '.join(notes)}).{unclear}"


def _change(training: Training, column: str) -> str:
    """Return ``40.9 % → 45.4 %``, with standard deviations if there are several seeds."""
    sides = zip(*_pairs(training), strict=True)
    return " → ".join(f"{Cell.over_seeds([row.accuracy(column) for row in rows])} %" for rows in sides)


def _details(training: Training) -> str:
    """Say what energy aligning cost, and which corrector is best."""
    raw, aligned = zip(*_pairs(training), strict=True)
    columns = ["old", "new"] if training.in_steps else ["many", "medium", "few"]
    columns = [column for column in columns if all(row.accuracy(column) is not None for row in (*raw, *aligned))]
    changes = [f"{column} {_change(training, column)}" for column in columns]
    by_group = f"By group of classes: {', '.join(changes)}. " if changes else ""
    overall = f"Overall accuracy {_change(training, 'overall')}. " if not raw[0].has_balanced_test else ""
    changed = describe_changes(_per_class(raw), _per_class(aligned), _class_names(training))
    return f"{overall}{by_group}{changed} {_describe_best(training)}"


def _per_class(rows: Sequence[Row]) -> Floats:
    """Return the mean accuracy of each class over seeds."""
    return np.asarray(np.array([row.per_class for row in rows], dtype=np.float64).mean(axis=0))


def _class_names(training: Training) -> Sequence[str]:
    try:
        return training.class_names
    except EnergyAlignError:  # the manifest cannot be read
        return [f"class {k}" for k in range(len(training.counts))]


def _describe_best(training: Training) -> str:
    means = _means(training)
    best = max(means, key=lambda name: means[name])
    if means[best] <= means[ALIGNED]:
        return "No other corrector that was measured on this training is better."
    name = "the raw network" if best == AS_TRAINED else best
    return f"Best on this training: {name} with {100 * means[best]:.1f} %."


def _means(training: Training) -> dict[str, float]:
    """Return the mean balanced accuracy of every corrector that has all seeds of `_pairs`."""
    seeds = [raw.seed for raw, _ in _pairs(training)]
    means = {}
    for name in training.correctors:
        by_seed = {row.seed: row.balanced for row in training.rows_of(name)}
        if by_seed.keys() >= set(seeds):
            means[name] = float(statistics.mean(by_seed[seed] for seed in seeds))
    return means


def _summary(cell: str, trainings: Sequence[Training]) -> tuple[str, str]:
    """Return one headline for many trainings of a cell."""
    gains = [
        100 * float(statistics.mean(aligned.balanced - raw.balanced for raw, aligned in _pairs(training)))
        for training in trainings
    ]
    better, worse = sum(gain > _MIN_CHANGE for gain in gains), sum(gain < -_MIN_CHANGE for gain in gains)
    best, name = max(
        (mean, f"{name} on {training.label}") for training in trainings for name, mean in _means(training).items()
    )
    return (
        f"{cell}: energy aligning changes balanced accuracy by {statistics.mean(gains):+.1f} points on average over "
        f"{len(trainings)} trainings.",
        f"It raises balanced accuracy in {better} of them and lowers it in {worse}. "
        f"Best of all: {name} with {100 * best:.1f} %.",
    )
