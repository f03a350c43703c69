"""Columns that are not in the order of the labels: what the labels themselves say of it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import numpy as np

from energyalign.core._engine.parts import Block
from energyalign.core.arrays import Floats, Ints, namespace, take_rows, to_numpy
from energyalign.core.errors import some_of
from energyalign.core.evidence import Evidence

MAX_SAMPLES = 10_000
MAX_CLASSES = 1_000  # of a confusion matrix
# Chernoff: a binomial share of n samples is as far off as a from its mean p with probability exp(-n kl(a, p)) at most,
# and a Poisson count as far as x from m with exp(-(x log(x / m) - x + m)). What has 1 chance in 1,000 is no chance.
_NO_CHANCE = math.log(1_000)
# Of the way from chance to the best accuracy that these predictions can have: below it a model is near chance.
_NEAR = 0.15
_MIN_PER_CLASS = 10  # samples on average; of fewer, chance itself is not known well enough
_STRIDE = 2_654_435_761  # a large prime: its multiples, modulo anything, look random


class Order(NamedTuple):
    """The class that each column seems to stand for, and how often the raw model is right then."""

    classes: Ints
    accuracy: float


def doubt_column_order(evidence: Evidence) -> str | None:
    """Say so if the raw model is right so rarely, or of other classes so often, that the columns may be mixed up."""
    if evidence.labels is None or evidence.accumulated is not None:
        return None
    truth, predicted = _predictions(evidence)
    accuracy, chance = float(np.mean(truth == predicted)), chance_accuracy(truth, predicted)
    order = find_order(truth, predicted, evidence.n_classes)
    if order is None and not is_near_chance(truth, predicted, evidence.n_classes):
        return None
    said = (
        f"the raw model is right on {accuracy:.1%} of the labelled samples, and a guess on {chance:.1%}: the columns "
        "of the logits may be in another order than the labels"
    )
    if order is None:
        return f"{said}, or the labels may belong to other samples. Check both."
    names = some_of(evidence.names_of(order.classes.tolist()))
    return f"{said}. In the order [{names}] it is right on {order.accuracy:.1%}. Name the columns in their order."


def chance_accuracy(truth: Ints, predicted: Ints) -> float:
    """How often predictions of these frequencies are right if they know nothing of the sample."""
    return float(np.sum(_shares(truth, predicted) * _shares(predicted, truth)))


def is_near_chance(truth: Ints, predicted: Ints, n_classes: int) -> bool:
    """Whether the predictions are not better than chance, though there are samples enough to show it if they were.

    Chance is that of the predictions' own frequencies, and so is the best they can reach: a model that always
    predicts the largest class has nothing to show and is not near chance in this sense. Less than one of `n_classes`
    right is below chance, whatever the frequencies: a model's bias should be that of its samples, not the opposite.
    """
    n = len(truth)
    accuracy, chance = float(np.mean(truth == predicted)), chance_accuracy(truth, predicted)
    if accuracy < 1 / n_classes and n * _kl(accuracy, 1 / n_classes) > _NO_CHANCE:
        return True
    if n < _MIN_PER_CLASS * n_classes:
        return False
    best = float(np.sum(np.minimum(_shares(truth, predicted), _shares(predicted, truth))))
    little = chance + _NEAR * (best - chance)
    better = accuracy > chance and n * _kl(accuracy, chance) > _NO_CHANCE
    return not better and accuracy < little and n * _kl(accuracy, little) > _NO_CHANCE


def find_order(truth: Ints, predicted: Ints, n_classes: int) -> Order | None:
    """Find the order of the columns that the labels speak for, if it is another one and stands out.

    A column stands for the class with which it agrees most beyond chance, if that class agrees with no other column
    more. If the model is better than chance, columns that stand for another class must do so among themselves: a class
    that a biased model gives up for another one is not mixed up with it. Their agreement must be more than chance gives
    in any choice of classes and columns.
    """
    if n_classes > MAX_CLASSES:
        return None
    pairs = np.bincount(truth * n_classes + predicted, minlength=n_classes**2).reshape(n_classes, n_classes)
    expected = pairs.sum(axis=1, keepdims=True) * pairs.sum(axis=0) / len(truth)
    excess = pairs - expected
    rows = np.arange(n_classes)
    column = excess.argmax(axis=1)
    mutual = (excess.argmax(axis=0)[column] == rows) & (excess[rows, column] > 0)
    moved = rows[mutual & (column != rows)]
    if float(np.mean(truth == predicted)) > chance_accuracy(truth, predicted):
        moved = _closed(moved, column)
    found, own = (moved, column[moved]), (moved, moved)
    if pairs[found].sum() <= 2 * pairs[own].sum() or _surprise(pairs[own], expected[own]) > _NO_CHANCE:
        return None
    if _surprise(pairs[found], expected[found]) <= _NO_CHANCE + _log_choices(n_classes, len(moved)):
        return None
    classes = np.full(n_classes, -1)
    classes[column[mutual]] = rows[mutual]
    classes[classes < 0] = rows[~mutual]  # of which nothing is known
    return Order(classes, float(pairs[classes, rows].sum() / len(truth)))


def _closed(moved: Ints, column: Ints) -> Ints:
    """Those of the classes whose columns are among themselves: mixed up, not just taken for another class."""
    while not np.all(kept := np.isin(column[moved], moved) & np.isin(moved, column[moved])):
        moved = moved[kept]
    return moved


class _Predictions:
    """Labels and raw predictions, block by block."""

    def __init__(self) -> None:
        self.pairs: list[Ints] = [np.zeros((2, 0), dtype=np.int64)]

    def merge(self, other: _Predictions) -> None:
        self.pairs += other.pairs


def _predictions(evidence: Evidence) -> Ints:
    every = -(-evidence.n_samples // MAX_SAMPLES)
    return np.concatenate(evidence.accumulate(partial(_predict, every)).pairs, axis=1)


def _predict(every: int, blocks: Iterable[Block]) -> _Predictions:
    """Predict one of each group of so many samples; not always its first: the classes may come in turn."""
    seen = _Predictions()
    for block in blocks:
        assert block.labels is not None
        drawn = np.flatnonzero(block.samples % every == (block.samples // every) * _STRIDE % every)
        if len(drawn):
            logits = take_rows(block.logits, drawn)
            predicted = to_numpy(namespace(logits).argmax(logits, axis=1)).astype(np.int64)
            seen.pairs.append(np.stack([block.labels[drawn], predicted]))
    return seen


def _shares(values: Ints, others: Ints) -> Floats:
    """The share of each class among `values`, of as many classes as there are in both."""
    n_classes = int(max(values.max(), others.max())) + 1
    return np.asarray(np.bincount(values, minlength=n_classes) / len(values))


def _kl(a: float, p: float) -> float:
    """Of two coins. A p of 0 or 1 excludes every other a."""
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = [share * np.log(share / other) for share, other in ((a, p), (1 - a, 1 - p)) if share > 0]
    return float(sum(terms))


def _surprise(found: Ints, expected: Floats) -> float:
    """How unlikely counts are that are larger than expected: at most exp(-surprise).

    Each count has a surprise of more than s with probability exp(-s) at most. The sum of m of them then exceeds t with
    that of the gamma distribution, exp(m + m log(t / m) - t) at most.
    """
    larger = found > expected
    x, mean, m = found[larger], expected[larger], int(larger.sum())
    total = float(np.sum(x * np.log(x / mean) - x + mean))
    return total - m - m * math.log(total / m) if total > m else 0.0


def _log_choices(n_classes: int, n_moved: int) -> float:
    """The logarithm of the number of ways to choose so many classes, and a column for each of them."""
    ways = math.lgamma(n_classes + 1) - math.lgamma(n_classes - n_moved + 1)
    return 2 * ways - math.lgamma(n_moved + 1)
