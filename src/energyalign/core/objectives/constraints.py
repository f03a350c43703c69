"""Minimum recalls and precisions."""

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
    """Minimum recall and precision by class number."""

    recall: Mapping[int, float] = field(default_factory=dict)
    precision: Mapping[int, float] = field(default_factory=dict)
    names: Sequence[str] = ()

    @classmethod
    def make(
        cls, recall: Mapping[object, float] | None, precision: Mapping[object, float] | None, names: Sequence[str]
    ) -> Constraints:
        """Look up classes by name, or by number if there are no names."""
        return cls(
            minima_by_class(recall, names, "minimum_recall"),
            minima_by_class(precision, names, "minimum_precision"),
            names,
        )

    def __bool__(self) -> bool:
        return bool(self.recall or self.precision)

    @property
    def classes(self) -> list[int]:
        """The constrained classes."""
        return sorted({*self.recall, *self.precision})

    def missed(self, labels: Ints, predicted: Ints, weights: Floats, n_classes: int) -> Floats:
        """Return the summed shortfall, without and with a margin.

        The margin is one standard error, at most half the distance to 1.
        """
        total = np.zeros(2)
        for _, _, minimum, value, error in self.values(labels, predicted, weights, n_classes):
            total += np.maximum(np.array([minimum, min(minimum + error, (1 + minimum) / 2)]) - value, 0.0)
        return total

    def values(
        self, labels: Ints, predicted: Ints, weights: Floats, n_classes: int
    ) -> Iterator[tuple[str, int, float, float, float]]:
        """Yield (recall or precision, class, minimum, value, standard error) of each constraint."""
        tally = Tally.of(labels, predicted, weights, n_classes)
        for name, minima, whole in (
            ("recall", self.recall, tally.true),
            ("precision", self.precision, tally.predicted),
        ):
            for k, minimum in minima.items():
                value = float(tally.right[k] / whole[k]) if whole[k] > 0 else 0.0
                yield name, k, minimum, value, float(np.sqrt(minimum * (1 - minimum) / max(whole[k], 1.0)))


def minima_by_class(given: Mapping[Any, float] | None, names: Sequence[str], option: str) -> dict[int, float]:
    """Convert a dict or series of minima to a dict by class number."""
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
