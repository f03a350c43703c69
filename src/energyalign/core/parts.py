"""The evidence in parts that can be read by themselves, one after another or in many processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

import numpy as np

from energyalign.core.arrays import Array, Bools, Floats, Ints, as_logits, take_rows
from energyalign.core.errors import EnergyAlignError

Result = TypeVar("Result")

# Of an array in memory, in a part: enough to be worth a thread, and enough parts for all of them.
NUMBERS_PER_PART = 1 << 22


class Part(Protocol):
    """Rows of logits that follow one another."""

    @property
    def n_rows(self) -> int:
        """How many there are."""

    def blocks(self) -> Iterable[Array]:
        """The rows from first to last, the same blocks at every call."""


class Mergeable(Protocol):
    """What a pass over a part of the evidence has found, to be joined with that of the next."""

    def merge(self, other: Self) -> object:
        """Add all that `other` has found."""


class Engine(Protocol):
    """Where and how many at a time the parts are worked on."""

    def map(self, work: Callable[[Stretch], Result], stretches: Sequence[Stretch]) -> Iterator[Result]:
        """The results in the order of the stretches, whatever the order in which they come."""


class InTurn:
    """One part after another, here."""

    def map(self, work: Callable[[Stretch], Result], stretches: Sequence[Stretch]) -> Iterator[Result]:
        """Work on the next when the last is done."""
        return map(work, stretches)


IN_TURN = InTurn()


@dataclass(frozen=True, eq=False)
class Source:
    """All of the evidence as one part, from a function that gives its blocks."""

    read: Callable[[], Iterable[Array]]
    n_rows: int

    def blocks(self) -> Iterable[Array]:
        """What the function gives."""
        return self.read()


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows of logits in memory."""

    logits: Array

    @property
    def n_rows(self) -> int:
        """How many there are."""
        return int(self.logits.shape[0])

    def blocks(self) -> Iterable[Array]:
        """All of them."""
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
    part : Part
    first : int
        The number of its first sample in the evidence.
    labels : array of shape (n_rows,) or None
    repeats : array of shape (n_rows,) or None
        How often each sample was observed; None if each was once.
    keep : array of bool of shape (n_rows,) or None
        Which samples count; None if all do.
    class_weights : array of shape (n_classes,) or None
        The weight of a sample of each class; None if all weigh the same.
    """

    part: Part
    first: int
    n_classes: int
    labels: Ints | None
    repeats: Floats | None
    keep: Bools | None
    class_weights: Floats | None

    @property
    def n_rows(self) -> int:
        """How many samples there are, counted or not."""
        return self.part.n_rows

    @property
    def counts(self) -> bool:
        """Whether any sample of it does."""
        return bool(np.any(occurrences(self.n_rows, self.repeats, self.keep) > 0))

    def blocks(self, most_rows: int) -> Iterator[Block]:
        """The samples that count, in blocks of at most so many rows."""
        start, occurs = 0, occurrences(self.n_rows, self.repeats, self.keep)
        for source in self.part.blocks():
            logits = as_logits(source, self.n_classes)
            stop = start + logits.shape[0]
            if stop > self.n_rows:
                start = stop
                break
            counted = start + np.flatnonzero(occurs[start:stop] > 0)
            # So many of those that count, not those among so many: of a thinned part it would be a few at a time.
            for first in range(0, len(counted), most_rows):
                samples = counted[first : first + most_rows]
                labels = None if self.labels is None else self.labels[samples]
                weights = None if labels is None or self.class_weights is None else self.class_weights[labels]
                yield Block(
                    take_rows(logits, samples - start),
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
