"""Detect logit columns that are not in the order of the labels."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import numpy as np

from energyalign.core._engine.parts import Block, Collected
from energyalign.core.arrays import Floats, Ints, namespace, take_rows, to_numpy
from energyalign.core.errors import some_of
from energyalign.core.evidence import Evidence

MAX_SAMPLES = 10_000
MAX_CLASSES = 1_000  # classes of a confusion matrix
# Significance level 1 / 1,000. By Chernoff's bounds, the share of n Bernoulli(p) samples deviates to a or beyond with
# probability at most exp(-n kl(a, p)), and a Poisson(m) count to x or beyond with exp(-(x log(x / m) - x + m)).
_SIGNIFICANT = math.log(1_000)
_NEAR_CHANCE = 0.15  # share of the way from chance to the best accuracy that these predictions can have
_MIN_PER_CLASS = 10  # samples on average; with fewer, chance accuracy is too uncertain
_STRIDE = 2_654_435_761  # a large prime: its multiples are spread evenly, modulo any number


MAY_BE_PERMUTED = ": the columns of the logits may be in another order than the labels"


class Order(NamedTuple):
    """The class that each column seems to stand for, and the accuracy of the raw model in that order."""

    classes: Ints
    accuracy: float


def doubt_column_order(evidence: Evidence) -> str | None:
    """Return a warning if the predictions of the raw model suggest that its columns are permuted, else None."""
    if evidence.labels is None or evidence.accumulated is not None:
        return None
    every = -(-evidence.n_samples // MAX_SAMPLES)
    truth, predicted = np.concatenate(evidence.accumulate(partial(_predict, every)), axis=1)
    accuracy, chance = float(np.mean(truth == predicted)), chance_accuracy(truth, predicted)
    order = find_order(truth, predicted, evidence.n_classes)
    if order is None and not is_near_chance(truth, predicted, evidence.n_classes):
        return None
    problem = (
        f"the raw model is right on {accuracy:.1%} of the labelled samples (chance: {chance:.1%}){MAY_BE_PERMUTED}"
    )
    if order is None:
        return f"{problem}, or the labels may belong to other samples. Check both."
    names = some_of(evidence.names_of(order.classes.tolist()))
    return f"{problem}. In the order [{names}] it is right on {order.accuracy:.1%}. Name the columns in their order."


def chance_accuracy(truth: Ints, predicted: Ints) -> float:
    """Return the accuracy expected if the predictions were independent of the labels."""
    return float(np.sum(_shares(truth, predicted) * _shares(predicted, truth)))


def is_near_chance(truth: Ints, predicted: Ints, n_classes: int) -> bool:
    """Return whether the predictions are no better than chance, with enough samples to tell.

    Chance and the best possible accuracy depend on the class frequencies of the predictions: a model that always
    predicts the largest class cannot do better than chance, so it does not count as near chance. An accuracy below
    1 / `n_classes` is below chance for any frequencies: a biased model should favour the frequent classes.
    """
    n = len(truth)
    accuracy, chance = float(np.mean(truth == predicted)), chance_accuracy(truth, predicted)
    if accuracy < 1 / n_classes and n * _kl(accuracy, 1 / n_classes) > _SIGNIFICANT:
        return True
    if n < _MIN_PER_CLASS * n_classes:
        return False
    best = float(np.sum(np.minimum(_shares(truth, predicted), _shares(predicted, truth))))
    near = chance + _NEAR_CHANCE * (best - chance)
    better = accuracy > chance and n * _kl(accuracy, chance) > _SIGNIFICANT
    return not better and accuracy < near and n * _kl(accuracy, near) > _SIGNIFICANT


def find_order(truth: Ints, predicted: Ints, n_classes: int) -> Order | None:
    """Return the order of the columns that fits the labels best, or None if the given order may be right.

    A column stands for the class with which it agrees most beyond chance, if that class also agrees most with it. If
    the model is better than chance, the moved columns must be a permutation of each other: a biased model that gives up
    one class for another has not swapped them. Their agreement must be significant, corrected for the number of ways to
    choose classes and columns.
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
        moved = _keep_permuted(moved, column)
    found, own = (moved, column[moved]), (moved, moved)
    if pairs[found].sum() <= 2 * pairs[own].sum() or _surprise(pairs[own], expected[own]) > _SIGNIFICANT:
        return None
    if _surprise(pairs[found], expected[found]) <= _SIGNIFICANT + _log_choices(n_classes, len(moved)):
        return None
    classes = np.full(n_classes, -1)
    classes[column[mutual]] = rows[mutual]
    classes[classes < 0] = rows[~mutual]  # unknown: fill in the remaining classes
    return Order(classes, float(pairs[classes, rows].sum() / len(truth)))


def _keep_permuted(moved: Ints, column: Ints) -> Ints:
    """Return the largest subset of the classes that their columns permute."""
    while not np.all(kept := np.isin(column[moved], moved) & np.isin(moved, column[moved])):
        moved = moved[kept]
    return moved


def _predict(every: int, blocks: Iterable[Block]) -> Collected[Ints]:
    """Predict one of every `every` samples, at varying places: the classes may alternate."""
    pairs = Collected([np.zeros((2, 0), dtype=np.int64)])
    for block in blocks:
        assert block.labels is not None
        drawn = np.flatnonzero(block.samples % every == (block.samples // every) * _STRIDE % every)
        if len(drawn):
            logits = take_rows(block.logits, drawn)
            predicted = to_numpy(namespace(logits).argmax(logits, axis=1)).astype(np.int64)
            pairs.append(np.stack([block.labels[drawn], predicted]))
    return pairs


def _shares(values: Ints, others: Ints) -> Floats:
    """Return the share of each class among `values`, for all classes in either array."""
    n_classes = int(max(values.max(), others.max())) + 1
    return np.asarray(np.bincount(values, minlength=n_classes) / len(values))


def _kl(a: float, p: float) -> float:
    """Return the Kullback-Leibler divergence of Bernoulli(a) from Bernoulli(p)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = [share * np.log(share / other) for share, other in ((a, p), (1 - a, 1 - p)) if share > 0]
    return float(sum(terms))


def _surprise(found: Ints, expected: Floats) -> float:
    """Return s such that counts this far above the expected ones have probability at most exp(-s).

    A single count has s or more with probability at most exp(-s), so the sum over m counts exceeds t at most as often
    as a gamma variable does: with probability at most exp(m + m log(t / m) - t).
    """
    larger = found > expected
    x, mean, m = found[larger], expected[larger], int(larger.sum())
    total = float(np.sum(x * np.log(x / mean) - x + mean))
    return total - m - m * math.log(total / m) if total > m else 0.0


def _log_choices(n_classes: int, n_moved: int) -> float:
    """Return the logarithm of the number of ways to choose `n_moved` classes and a column for each."""
    ways = math.lgamma(n_classes + 1) - math.lgamma(n_classes - n_moved + 1)
    return 2 * ways - math.lgamma(n_moved + 1)
