"""Recalls and precisions that must be reached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from energyalign.core.arrays import Floats, Ints
from energyalign.core.errors import BadValueError
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
        """Look up the classes by name, or by number."""
        return cls(
            {_number(k, names, "minimum_recall"): _share(v, k, "minimum_recall") for k, v in (recall or {}).items()},
            {
                _number(k, names, "minimum_precision"): _share(v, k, "minimum_precision")
                for k, v in (precision or {}).items()
            },
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


def _number(given: object, names: Sequence[str], option: str) -> int:
    if isinstance(given, (int, np.integer)) and not isinstance(given, bool) and 0 <= given < len(names):
        return int(given)
    if str(given) in names:
        return names.index(str(given))
    if isinstance(given, str) and given.isdecimal() and int(given) < len(names):
        return int(given)
    raise BadValueError(f"{option}: unknown class {given!r}; the classes are {', '.join(names[:20])}.")


def _share(value: float, given: object, option: str) -> float:
    if not 0 < float(value) <= 1:
        raise BadValueError(f"{option} of class {given!r} must be in (0, 1], got {value}.")
    return float(value)
