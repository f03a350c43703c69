"""What came out, in a sentence for each training; whoever wins."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from energyalign.experiments.engine.row import Row
from energyalign.report.tables.model import Cell
from energyalign.report.trainings import ALIGNED, AS_TRAINED, Training

_MAX_SENTENCES = 3
_NOTHING = 0.05
"""Per cent points that would be printed as 0.0."""


def verdict_of(trainings: Sequence[Training]) -> list[str]:
    """On each training that was measured both raw and under energy aligning, or on all of a cell together."""
    sentences = []
    for cell in dict.fromkeys(training.cell for training in trainings):
        of_cell = [training for training in trainings if training.cell == cell]
        both = [training for training in of_cell if _pairs(training)]
        if not both:
            sentences.append(f"{cell}: nothing was measured both raw and under energy aligning ({ALIGNED}) yet.")
        elif len(both) <= _MAX_SENTENCES:
            sentences += [_on_one(training) for training in both]
        else:
            sentences.append(_on_all(cell, both))
    return sentences


def _pairs(training: Training) -> list[tuple[Row, Row]]:
    """Raw and aligned rows of the same seed."""
    aligned = {row.seed: row for row in training.rows_of(ALIGNED)}
    return [(row, aligned[row.seed]) for row in training.rows_of(AS_TRAINED) if row.seed in aligned]


def _gain(training: Training) -> float:
    """In per cent points, mean over seeds."""
    return 100 * float(statistics.mean(aligned.overall - raw.overall for raw, aligned in _pairs(training)))


def _on_one(training: Training) -> str:
    pairs = _pairs(training)
    raw, aligned = ([pair[i] for pair in pairs] for i in (0, 1))
    gain = _gain(training)
    what = "raises" if gain > _NOTHING else "lowers" if gain < -_NOTHING else "does not change"
    noted = ["1 seed" if len(pairs) == 1 else f"{len(pairs)} seeds"]
    weak = "old" if training.in_steps else "few"
    if all(row.accuracy(weak) is not None for row in raw):
        noted.append(f"{weak} classes {_from_to(raw, aligned, weak)}")
    return (
        f"{training.cell}, {training.label}{_when(training)}: energy aligning as in the paper ({ALIGNED}) {what} the "
        f"test accuracy, {_from_to(raw, aligned, 'overall')} % ({'; '.join(noted)}). {_who_is_best(training)}"
    )


def _when(training: Training) -> str:
    return f", after step {training.step} of {training.runs[0].n_steps}" if training.in_steps else ""


def _from_to(before: Sequence[Row], after: Sequence[Row], column: str) -> str:
    return " to ".join(str(Cell.over_seeds([row.accuracy(column) for row in rows])) for rows in (before, after))


def _who_is_best(training: Training) -> str:
    means = _means(training)
    best = max(means, key=lambda name: means[name])
    if means[best] <= means[ALIGNED]:
        return "Nothing else that was measured behind this training is ahead of it."
    name = "the raw network" if best == AS_TRAINED else best
    return f"Best behind this training is {name} with {Cell.over_seeds([means[best]])} %."


def _means(training: Training) -> dict[str, float]:
    """Of every corrector that was measured with all the seeds that are compared, over these seeds."""
    seeds = [raw.seed for raw, _ in _pairs(training)]
    means = {}
    for name in training.correctors:
        by_seed = {row.seed: row.overall for row in training.rows_of(name)}
        if by_seed.keys() >= set(seeds):
            means[name] = float(statistics.mean(by_seed[seed] for seed in seeds))
    return means


def _on_all(cell: str, trainings: Sequence[Training]) -> str:
    gains = [_gain(training) for training in trainings]
    better, worse = sum(gain > _NOTHING for gain in gains), sum(gain < -_NOTHING for gain in gains)
    ranked = sorted(
        (
            (mean, f"{name} behind {training.label}")
            for training in trainings
            for name, mean in _means(training).items()
        ),
        reverse=True,
    )
    return (
        f"{cell}: energy aligning as in the paper ({ALIGNED}) raises the test accuracy of {better} of "
        f"{len(trainings)} trainings and lowers that of {worse}, by {statistics.mean(gains):+.1f} points in the mean. "
        f"Best of all is {ranked[0][1]} with {100 * ranked[0][0]:.1f} %."
    )
