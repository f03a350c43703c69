"""Recalls and precisions that must be reached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from energyalign.core.arrays import Floats, Ints
from energyalign.core.errors import BadValueError
from energyalign.core.names import find_class
from energyalign.core.objectives.metrics import Tally


@dataclass(frozen=True)
class Constraints:
    """The least recall and precision of some classes, by class number."""

    recall: Mapping[int, float] = field(default_factory=dict)
    precision: Mapping[int, float] = field(default_factory=dict)
    names: Sequence[str] = ()

    @classmethod
    def make(
        cls, recall: Mapping[object, float] | None, precision: Mapping[object, float] | None, names: Sequence[str]
    ) -> Constraints:
        """Look up the classes by name; classes without names by number."""
        return cls(
            minima_by_class(recall, names, "minimum_recall"),
            minima_by_class(precision, names, "minimum_precision"),
            names,
        )

    def __bool__(self) -> bool:
        return bool(self.recall or self.precision)

    @property
    def classes(self) -> list[int]:
        """The classes that something is asked of."""
        return sorted({*self.recall, *self.precision})

    def missed(self, labels: Ints, predicted: Ints, weights: Floats, n_classes: int) -> Floats:
        """By how much the predictions miss the constraints, in sum, as they are and with a margin.

        The margin is one standard error, but no more than halfway to 1.
        """
        total = np.zeros(2)
        for _, _, minimum, value, error in self.values(labels, predicted, weights, n_classes):
            total += np.maximum(np.array([minimum, min(minimum + error, (1 + minimum) / 2)]) - value, 0.0)
        return total

    def values(
        self, labels: Ints, predicted: Ints, weights: Floats, n_classes: int
    ) -> Iterator[tuple[str, int, float, float, float]]:
        """What was asked for, of which class, the minimum, what the predictions have, and its standard error."""
        tally = Tally.of(labels, predicted, weights, n_classes)
        for name, minima, whole in (
            ("recall", self.recall, tally.true),
            ("precision", self.precision, tally.predicted),
        ):
            for k, minimum in minima.items():
                value = float(tally.right[k] / whole[k]) if whole[k] > 0 else 0.0
                yield name, k, minimum, value, float(np.sqrt(minimum * (1 - minimum) / max(whole[k], 1.0)))


def minima_by_class(given: Mapping[Any, float] | None, names: Sequence[str], option: str) -> dict[int, float]:
    """Look up the classes of a dict or series of minima."""
    if given is None:
        return {}
    if not hasattr(given, "keys"):
        raise BadValueError(f"{option} must be a dict of class to number, such as {{'fraud': 0.8}}, got {given!r}.")
    return {find_class(name, names, option): _share(value, name, option) for name, value in dict(given).items()}


def _share(value: object, given: object, option: str) -> float:
    number = value if isinstance(value, (int, float, np.number)) else np.nan
    if not 0 < number <= 1:
        raise BadValueError(f"{option} of class {given!r} must be a number in (0, 1], got {value!r}.")
    return float(number)
