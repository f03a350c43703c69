"""Parts of the evidence, each of which can be read on its own, possibly in another process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

import numpy as np

from energyalign.core.arrays import Array, Bools, Floats, Ints, as_logits, row_pieces, take_rows
from energyalign.core.errors import EnergyAlignError
from energyalign.core.probabilities import log_probabilities

Item = TypeVar("Item")
Result = TypeVar("Result")

# Size of a part of an array in memory: large enough for a thread, small enough to keep all threads busy.
NUMBERS_PER_PART = 1 << 22


class LogitPart(Protocol):
    """Consecutive rows of logits that can be read again: an array, a file, a function."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    def blocks(self) -> Iterable[Array]:
        """Yield the rows in order, in the same blocks at every call."""


class Mergeable(Protocol):
    """The result of a pass over a part of the evidence."""

    def merge(self, other: Self) -> object:
        """Add the result of the next part."""


class Sums:
    """Arrays of given shapes that are summed up together."""

    def __init__(self, *shapes: tuple[int, ...]) -> None:
        self.values: tuple[Floats, ...] = tuple(np.zeros(shape) for shape in shapes)

    def add(self, *terms: Floats | float) -> None:
        """Add one term to each sum."""
        for value, term in zip(self.values, terms, strict=True):
            value += term  # noqa: PLW2901, in place

    def merge(self, other: Self) -> None:
        """Add the sums of `other`."""
        self.add(*other.values)


class Collected(list[Item]):
    """A list of results."""

    def merge(self, other: Self) -> None:
        """Append the results of `other`."""
        self.extend(other)


class Engine(Protocol):
    """Decides where the parts are processed, and how many at a time."""

    def map(self, work: Callable[[Stretch], Result], stretches: Sequence[Stretch]) -> Iterator[Result]:
        """Yield the result of each stretch, in order."""


class InTurn:
    """Processes one part after another in this process."""

    def map(self, work: Callable[[Stretch], Result], stretches: Sequence[Stretch]) -> Iterator[Result]:
        return map(work, stretches)


IN_TURN = InTurn()


@dataclass(frozen=True, eq=False)
class WholePart:
    """All of the evidence as one part, read by a function."""

    read: Callable[[], Iterable[Array]]
    n_rows: int

    def blocks(self) -> Iterable[Array]:
        return self.read()


@dataclass(frozen=True, eq=False)
class Rows:
    """Logits in memory."""

    logits: Array

    @property
    def n_rows(self) -> int:
        return int(self.logits.shape[0])

    def blocks(self) -> Iterable[Array]:
        return (self.logits,)


@dataclass(frozen=True, eq=False)
class KeptRows:
    """The rows of a part for which `keep` is true."""

    part: LogitPart
    keep: Bools

    @property
    def n_rows(self) -> int:
        return int(self.keep.sum())

    def blocks(self) -> Iterator[Array]:
        start = 0
        for block in self.part.blocks():
            stop = start + block.shape[0]
            rows = np.flatnonzero(self.keep[start:stop])
            start = stop
            if len(rows):
                yield take_rows(block, rows)


def keep_rows(parts: Sequence[LogitPart], keep: Bools) -> list[LogitPart]:
    """Return the parts without the rows for which `keep` is false."""
    if keep.all():
        return list(parts)
    ends = np.cumsum([part.n_rows for part in parts])
    return [KeptRows(part, own) for part, own in zip(parts, np.split(keep, ends[:-1]), strict=True)]


@dataclass(frozen=True, eq=False)
class Block:
    """Samples: logits, labels, weights, repeats (how often each was observed) and sample numbers."""

    logits: Array
    labels: Ints | None
    weights: Floats
    repeats: Floats
    samples: Ints

    def split(self, max_rows: int) -> Iterator[Block]:
        """Yield the same samples without labels, at most `max_rows` at a time."""
        for start, logits in row_pieces(self.logits, max_rows):
            rows = slice(start, start + logits.shape[0])
            yield Block(logits, None, self.weights[rows], self.repeats[rows], self.samples[rows])


@dataclass(frozen=True, eq=False)
class Stretch:
    """A part of the evidence with the labels and weights of its samples: all that a process needs.

    Attributes
    ----------
    part : LogitPart
    first : int
        Number of the part's first sample in the evidence.
    labels : array of shape (n_rows,) or None
    repeats : array of shape (n_rows,) or None
        How often each sample was observed; None if once.
    keep : array of bool of shape (n_rows,) or None
        Which samples to use; None for all.
    class_weights : array of shape (n_classes,) or None
        Weight of a sample of each class; None if all are 1.
    probabilities : bool
        Whether the part holds probabilities, default=False. `blocks` then yields their logarithms.
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
        """Number of samples, including unused ones."""
        return self.part.n_rows

    @property
    def counts(self) -> bool:
        """Whether any sample is used."""
        return bool(np.any(occurrences(self.n_rows, self.repeats, self.keep) > 0))

    def blocks(self, max_rows: int) -> Iterator[Block]:
        """Yield the samples in use, in blocks of at most `max_rows` rows."""
        start, occurs = 0, occurrences(self.n_rows, self.repeats, self.keep)
        for source in self.part.blocks():
            logits = as_logits(source, self.n_classes)
            stop = start + logits.shape[0]
            if stop > self.n_rows:
                start = stop
                break
            counted = start + np.flatnonzero(occurs[start:stop] > 0)
            # Count only samples in use: blocks of a thinned part would be small otherwise.
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
                f"expected {self.n_rows:,} samples of evidence, but reading gave another number: the source must yield "
                "the same blocks every time it is read."
            )


def occurrences(n_samples: int, repeats: Floats | None, keep: Bools | None) -> Floats:
    """Return how often each sample counts: its repeats, or 0 if it is not kept."""
    if repeats is None:
        # A view of one number, so that nothing is stored per sample.
        return np.broadcast_to(1.0, (n_samples,)) if keep is None else keep.astype(np.float64)
    return repeats if keep is None else repeats * keep
