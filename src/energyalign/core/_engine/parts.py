"""The evidence in parts that can be read by themselves, one after another or in many processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

import numpy as np

from energyalign.core.arrays import Array, Bools, Floats, Ints, as_logits, take_rows
from energyalign.core.errors import EnergyAlignError
from energyalign.core.probabilities import log_probabilities

Result = TypeVar("Result")

# Numbers in a part of an array in memory: enough to be worth a thread, few enough to keep all threads busy.
NUMBERS_PER_PART = 1 << 22


class LogitPart(Protocol):
    """Consecutive rows of logits that can be read again: an array, a file, a function."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    def blocks(self) -> Iterable[Array]:
        """The rows from first to last, the same blocks at every call."""


class Mergeable(Protocol):
    """The result of a pass over a part of the evidence, which can be merged with that of the next."""

    def merge(self, other: Self) -> object:
        """Add all that `other` has found."""


class Sums:
    """Some sums that grow together, each an array of its own shape.

    Parameters
    ----------
    *shapes : tuple of int
        One for each sum.
    """

    def __init__(self, *shapes: tuple[int, ...]) -> None:
        self.values: tuple[Floats, ...] = tuple(np.zeros(shape) for shape in shapes)

    def add(self, *terms: Floats | float) -> None:
        """Add to each sum a term of its own."""
        for value, term in zip(self.values, terms, strict=True):
            value += term  # noqa: PLW2901, it is added in place

    def merge(self, other: Self) -> None:
        """Add all that `other` has added up."""
        self.add(*other.values)


class Engine(Protocol):
    """Decides where the parts are worked on, and how many at a time."""

    def map(self, work: Callable[[Stretch], Result], stretches: Sequence[Stretch]) -> Iterator[Result]:
        """Yield the results in the order of the stretches, whatever the order in which they are ready."""


class InTurn:
    """Works on one part after another in this process."""

    def map(self, work: Callable[[Stretch], Result], stretches: Sequence[Stretch]) -> Iterator[Result]:
        """Work on one after another."""
        return map(work, stretches)


IN_TURN = InTurn()


@dataclass(frozen=True, eq=False)
class WholePart:
    """All of the evidence as one part, from a function that gives its blocks."""

    read: Callable[[], Iterable[Array]]
    n_rows: int

    def blocks(self) -> Iterable[Array]:
        """Call the function."""
        return self.read()


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows of logits in memory."""

    logits: Array

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.logits.shape[0])

    def blocks(self) -> Iterable[Array]:
        """Return all rows as one block."""
        return (self.logits,)


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows of the evidence.

    `weights` make the classes equal, `repeats` say how often a row was seen, `samples` are the rows' numbers.
    """

    logits: Array
    labels: Ints | None
    weights: Floats
    repeats: Floats
    samples: Ints


@dataclass(frozen=True, eq=False)
class Stretch:
    """A part of the evidence with all that is known of its samples: what a process needs to work on it.

    Attributes
    ----------
    part : LogitPart
    first : int
        The number of its first sample in the evidence.
    labels : array of shape (n_rows,) or None
    repeats : array of shape (n_rows,) or None
        How often each sample was observed; None if each was once.
    keep : array of bool of shape (n_rows,) or None
        Which samples count; None if all do.
    class_weights : array of shape (n_classes,) or None
        The weight of a sample of each class; None if all weigh the same.
    probabilities : bool
        Whether the part holds probabilities, of which the blocks give the logarithm.
    """

    part: LogitPart
    first: int
    n_classes: int
    labels: Ints | None
    repeats: Floats | None
    keep: Bools | None
    class_weights: Floats | None
    probabilities: bool = False

    @property
    def n_rows(self) -> int:
        """Number of samples, counted or not."""
        return self.part.n_rows

    @property
    def counts(self) -> bool:
        """Whether any sample counts."""
        return bool(np.any(occurrences(self.n_rows, self.repeats, self.keep) > 0))

    def blocks(self, max_rows: int) -> Iterator[Block]:
        """Iterate over the samples that count, in blocks of at most so many rows."""
        start, occurs = 0, occurrences(self.n_rows, self.repeats, self.keep)
        for source in self.part.blocks():
            logits = as_logits(source, self.n_classes)
            stop = start + logits.shape[0]
            if stop > self.n_rows:
                start = stop
                break
            counted = start + np.flatnonzero(occurs[start:stop] > 0)
            # Count only the samples that are kept: blocks of a thinned part would be small otherwise.
            for first in range(0, len(counted), max_rows):
                samples = counted[first : first + max_rows]
                labels = None if self.labels is None else self.labels[samples]
                weights = None if labels is None or self.class_weights is None else self.class_weights[labels]
                rows = take_rows(logits, samples - start)
                yield Block(
                    log_probabilities(rows) if self.probabilities else rows,
                    labels,
                    np.ones(len(samples)) if weights is None else weights,
                    occurs[samples],
                    self.first + samples,
                )
            start = stop
        if start != self.n_rows:
            raise EnergyAlignError(
                f"{self.n_rows:,} samples of evidence were announced, but reading gave another number. "
                "The source must yield the same blocks every time it is read."
            )


def occurrences(n_samples: int, repeats: Floats | None, keep: Bools | None) -> Floats:
    """How often each sample counts."""
    if repeats is None:
        # A view of one number: where nothing is known of the samples, nothing is stored per sample.
        return np.broadcast_to(1.0, (n_samples,)) if keep is None else keep.astype(np.float64)
    return repeats if keep is None else repeats * keep
