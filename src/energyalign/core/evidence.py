"""Evidence: logits on a class-balanced sample, labels, training counts, and where the sample comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Self, TypeAlias, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from energyalign.core._engine.compiled import ONE_PASS, worthwhile
from energyalign.core._engine.forks import cached_property
from energyalign.core._engine.parts import (
    IN_TURN,
    NUMBERS_PER_PART,
    Block,
    Engine,
    LogitPart,
    Mergeable,
    Rows,
    Stretch,
    WholePart,
    occurrences,
)
from energyalign.core._engine.threads import ThreadsOfEachPass
from energyalign.core.arrays import (
    Array,
    Bools,
    Floats,
    Ints,
    array_of,
    as_logits,
    namespace,
    row_pieces,
    to_numpy,
    working_precision,
)
from energyalign.core.checks import check_counts, check_groups, check_labels, check_per_sample
from energyalign.core.errors import EnergyAlignError
from energyalign.core.free_energy import FreeEnergy, energy_of_blocks
from energyalign.core.heads import IGNORE_INDEX, open_head
from energyalign.core.names import Counts, columns_of, counts_by_class, names_of, order_by_name
from energyalign.core.probabilities import MAX_ROWS_TO_LOOK_AT, are_probabilities

Total = TypeVar("Total", bound=Mergeable)
EvidenceKind: TypeAlias = Literal["training", "out-of-fold", "held-out"]
# Numbers in a block: small enough that intermediate results stay in the processor's cache, also in float64.
_NUMBERS_PER_BLOCK = 1 << 18
_IMBALANCED = 2.0
_MIN_SIGMOIDS = 16  # logits may be between 0 and 1, but not so many of them
ONLY_ENERGIES = (
    "only energies are left of this evidence, and this estimator needs the logits themselves: "
    "use estimator='lse' or 'prior', or fit on logits that can be read again."
)


@dataclass(frozen=True, eq=False)
class Evidence:
    """Logits that can be read several times, in parts, with labels and training counts if they are known.

    With labels, samples are weighted so that every class present counts the same: an imbalanced sample
    serves as well as a re-sampled balanced one. Without labels the sample is taken to be balanced.

    Use `from_arrays`, `from_blocks` or `from_parts`.

    Attributes
    ----------
    counts : array of shape (n_classes,) or None
        Training samples per class.
    kind : {"training", "out-of-fold", "held-out"}
        Whether the model was trained on these very samples. A model flatters itself on samples it has
        memorised, so `auto` does not choose by accuracy on ``training`` evidence.
    groups : array of shape (n_samples,) or None
        Which samples belong together when the evidence is split for selection, for example the folds of
        an outer cross-validation.
    """

    parts: tuple[LogitPart, ...]
    n_samples: int
    n_classes: int
    labels: Ints | None = None
    repeats: Floats | None = None
    counts: Floats | None = None
    kind: EvidenceKind = "training"
    class_names: tuple[str, ...] | None = None
    groups: Ints | None = None
    keep: Bools | None = None
    counts_from_labels: bool = False
    accumulated: FreeEnergy | None = None
    probabilities: bool | None = None
    engine: Engine = IN_TURN

    @classmethod
    def from_arrays(
        cls,
        logits: Array,
        labels: Array | None = None,
        *,
        repeats: Array | None = None,
        counts: Counts | None = None,
        kind: EvidenceKind = "training",
        class_names: Sequence[object] | None = None,
        groups: npt.ArrayLike | None = None,
        ignore_index: int = IGNORE_INDEX,
    ) -> Self:
        """Evidence that is in memory (NumPy, torch, ...); the columns of a data frame name the classes.

        Logits are (n, n_classes), (n,) or (n, 1) for one logit of two classes, (n, tokens, n_classes), or
        (n, n_classes, height, width). Positions with the label `ignore_index` are left out. Repeats and groups are
        per sample; tokens and pixels of a sample stay together unless groups say otherwise.
        """
        columns = columns_of(logits)
        logits = array_of(logits)
        if columns is not None and class_names is not None:
            logits = logits[
                :, order_by_name(columns, names_of(class_names), "the columns of the logits", "class_names")
            ]
        class_names = columns if class_names is None else class_names
        rows = open_head(logits, labels, ignore_index=ignore_index)
        block, labels = as_logits(rows.logits), rows.labels
        repeats, groups = rows.per_row("repeats", repeats), rows.groups(groups)
        parts: list[LogitPart] = [Rows(block)]
        engine: Engine = IN_TURN
        # Arrays of other libraries have threads, or a device, of their own.
        if isinstance(block, np.ndarray) and block.size > NUMBERS_PER_PART:
            rows = max(1, NUMBERS_PER_PART // block.shape[1])
            parts = [Rows(piece) for _, piece in row_pieces(block, rows)]
            engine = ThreadsOfEachPass()
        return cls.from_parts(
            parts, block.shape[1], labels,
            repeats=repeats, counts=counts, kind=kind, class_names=class_names, groups=groups, engine=engine,
        )  # fmt: skip

    @classmethod
    def from_blocks(
        cls,
        read: Callable[[], Iterable[Array]],
        n_samples: int,
        n_classes: int,
        labels: Array | None = None,
        *,
        repeats: Array | None = None,
        counts: Counts | None = None,
        kind: EvidenceKind = "training",
        class_names: Sequence[object] | None = None,
        groups: npt.ArrayLike | None = None,
    ) -> Self:
        """Evidence that `read()` yields block by block, the same blocks at every call."""
        return cls.from_parts(
            (WholePart(read, n_samples),), n_classes, labels,
            repeats=repeats, counts=counts, kind=kind, class_names=class_names, groups=groups,
        )  # fmt: skip

    @classmethod
    def from_parts(
        cls,
        parts: Sequence[LogitPart],
        n_classes: int,
        labels: Array | None = None,
        *,
        repeats: Array | None = None,
        counts: Counts | None = None,
        kind: EvidenceKind = "training",
        class_names: Sequence[object] | None = None,
        groups: npt.ArrayLike | None = None,
        engine: Engine = IN_TURN,
    ) -> Self:
        """Evidence in parts, which the engine may work on at the same time: the result is the same to the bit.

        Without `counts`, the numbers of labels stand in for them if the largest is at least twice the smallest.
        Otherwise the sample was balanced, up to chance, and says nothing about the training data.
        """
        n_samples = sum(part.n_rows for part in parts)
        if n_samples < 1:
            raise EnergyAlignError("the evidence is empty: give at least one row of logits, not all ignored.")
        if kind not in get_args(EvidenceKind):
            raise EnergyAlignError(f"unknown kind of evidence {kind!r}: choose {', '.join(get_args(EvidenceKind))}.")
        if class_names is not None and len(class_names) != n_classes:
            raise EnergyAlignError(f"{len(class_names)} class names were given for {n_classes} classes.")
        ordered, names = counts_by_class(counts, class_names, n_classes)
        checked_labels = None if labels is None else check_labels(labels, n_samples, n_classes, names)
        checked_counts = None if ordered is None else check_counts(ordered, n_classes)
        evidence = cls(
            parts=tuple(parts),
            n_samples=n_samples,
            n_classes=n_classes,
            labels=checked_labels,
            repeats=None if repeats is None else check_per_sample("repeats", repeats, n_samples),
            counts=checked_counts,
            kind=kind,
            class_names=names,
            groups=None if groups is None else check_groups(groups, n_samples),
            engine=engine,
        )
        seen = evidence.label_counts
        if checked_counts is None and seen is not None and seen.min() > 0 and seen.max() >= _IMBALANCED * seen.min():
            return replace(evidence, counts=seen, counts_from_labels=True)
        return evidence

    @classmethod
    def from_free_energy(
        cls,
        energy: FreeEnergy,
        *,
        counts: Counts | None = None,
        kind: EvidenceKind = "training",
        class_names: Sequence[object] | None = None,
    ) -> Self:
        """Evidence of which only the energies are left: a stream, or shards merged elsewhere."""
        n_samples = int(np.ceil(energy.n_samples))
        return replace(
            cls.from_blocks(
                _refuse_reading, n_samples, energy.n_classes, counts=counts, kind=kind, class_names=class_names
            ),
            accumulated=energy,
        )

    def with_counts(self, counts: Counts) -> Self:
        """Return the same samples with these training counts."""
        ordered, names = counts_by_class(counts, self.class_names, self.n_classes)
        return replace(self, counts=check_counts(ordered, self.n_classes), counts_from_labels=False, class_names=names)

    def with_engine(self, engine: Engine) -> Self:
        """Return the same samples, to be worked on by this engine."""
        return replace(self, engine=engine)

    def subset(self, keep: Bools) -> Self:
        """Return the same evidence with only the samples where `keep` is true."""
        # A part of it is read as the whole is.
        return replace(
            self, keep=keep if self.keep is None else self.keep & keep, probabilities=self.holds_probabilities
        )

    def unlabelled(self) -> Self:
        """Return the same samples without labels, counts and groups."""
        return replace(self, labels=None, counts=None, groups=None)

    @cached_property
    def estimated(self) -> dict[object, Any]:
        """Energies already estimated from this evidence, by estimator and clusters."""
        return {}

    def names_of(self, classes: Iterable[int]) -> list[str]:
        """Name these classes for a message."""
        return [str(k) if self.class_names is None else self.class_names[k] for k in classes]

    @cached_property
    def label_counts(self) -> Floats | None:
        """Samples of each class in this evidence, or None without labels."""
        if self.labels is None:
            return None
        plain = self.repeats is None and self.keep is None
        weights = None if plain else self.occurrences
        return np.bincount(self.labels, weights=weights, minlength=self.n_classes).astype(np.float64)

    @property
    def occurrences(self) -> Floats:
        """How often each sample counts: its repeats, and 0 for one that is not kept."""
        # Made anew each time: of millions of samples in several folds, an array for each would be most of the memory.
        return occurrences(self.n_samples, self.repeats, self.keep)

    @cached_property
    def _class_weights(self) -> Floats | None:
        """The weight of a sample of each class that makes every class present count the same; 1 on average."""
        seen = self.label_counts
        if seen is None:
            return None
        present = seen > 0
        return np.asarray(np.divide(seen.sum() / present.sum(), seen, out=np.zeros(self.n_classes), where=present))

    @cached_property
    def total_weight(self) -> float:
        """Sum of the weights of all samples, repeats included."""
        if self.accumulated is not None:
            _refuse_reading()
        return float(self.occurrences.sum())  # weights are 1 on average

    def blocks(self, max_rows: int | None = None) -> Iterator[Block]:
        """Iterate over the evidence in blocks of at most so many rows."""
        for stretch in self._stretches():
            yield from stretch.blocks(max_rows or self._rows_of(_NUMBERS_PER_BLOCK))

    def accumulate(self, fill: Callable[[Iterable[Block]], Total], max_numbers: int = _NUMBERS_PER_BLOCK) -> Total:
        """Make one pass: call `fill` on the blocks of each part and merge the results in the order of the parts.

        The engine may call `fill` in other processes: it and its result must be picklable.
        """
        total = fill(())
        stretches = [stretch for stretch in self._stretches() if stretch.counts]
        for found in self.engine.map(partial(_fill, fill, self._rows_of(max_numbers)), stretches):
            total.merge(found)
        return total

    def _rows_of(self, numbers: int) -> int:
        return max(1, numbers // self.n_classes)

    def _stretches(self, *, as_given: bool = False) -> Iterator[Stretch]:
        """The parts, each with what is known of its samples."""
        start = 0
        probabilities = not as_given and self.holds_probabilities
        for part in self.parts:
            rows = slice(start, start + part.n_rows)
            start = rows.stop
            yield Stretch(
                part,
                rows.start,
                self.n_classes,
                labels=None if self.labels is None else self.labels[rows],
                repeats=None if self.repeats is None else self.repeats[rows],
                keep=None if self.keep is None else self.keep[rows],
                class_weights=self._class_weights,
                probabilities=probabilities,
            )

    @cached_property
    def free_energy(self) -> FreeEnergy:
        """Free energies of the balanced evidence: one pass, kept."""
        if self.accumulated is not None:
            return self.accumulated
        compiled = self.uses_compiled_loops(ONE_PASS)
        # A whole part at a time: the loop in question cuts it to the size it likes best.
        return self.accumulate(partial(energy_of_blocks, self.n_classes, compiled), NUMBERS_PER_PART)

    def uses_compiled_loops(self, min_numbers: int) -> bool:
        """Whether this evidence has the `min_numbers` from which compiled loops pay, and they are installed."""
        return worthwhile(self.n_samples * self.n_classes, min_numbers)

    @cached_property
    def masked(self) -> Bools:
        """Classes whose logit is -inf for every sample: they are out of play and keep shift 0."""
        rows = self._first_rows
        if rows is not None and np.all(to_numpy(namespace(rows).max(rows, axis=0)) > -np.inf):  # false for NaN
            return np.zeros(self.n_classes, dtype=bool)
        return np.asarray(np.isneginf(self.free_energy.values))

    @cached_property
    def unseen(self) -> Bools:
        """Classes in play of which the labels show no sample: their own energy cannot be estimated."""
        seen = self.label_counts
        if seen is None:
            return np.zeros(self.n_classes, dtype=bool)
        return np.asarray((seen == 0) & ~self.masked)

    @cached_property
    def usable(self) -> Bools:
        """Classes whose own energy can be estimated from this evidence."""
        return ~(self.masked | self.unseen)

    @cached_property
    def holds_probabilities(self) -> bool:
        """True if the first rows are distributions: softmax was applied, and no logarithm. It is taken here."""
        if self.probabilities is not None:
            return self.probabilities
        return self._first_rows is not None and are_probabilities(self._first_rows)

    @cached_property
    def holds_log_probabilities(self) -> bool:
        """True if the first rows are distributions after exp: normalised, so not logits."""
        if self.holds_probabilities:
            return True
        rows = self._first_rows
        with np.errstate(over="ignore"):  # logits so large are not log-probabilities
            return rows is not None and _sum_to_one(namespace(rows).exp(rows))

    @cached_property
    def holds_one_probability(self) -> bool:
        """True if the first rows are (0, f) with all f from 0 to 1: a sigmoid was applied, as far as one can see."""
        rows = self._first_rows
        if rows is None or self.n_classes != 2 or rows.shape[0] < _MIN_SIGMOIDS:
            return False
        xp = namespace(rows)
        within = xp.all(rows[:, 0] == 0) & xp.all((rows[:, 1] >= 0) & (rows[:, 1] <= 1))
        return bool(within & xp.any(rows[:, 1] > 0))

    @cached_property
    def _first_rows(self) -> Array | None:
        """A few samples to look at, as they were given, or None where only energies are left."""
        if self.accumulated is not None:
            return None
        for stretch in self._stretches(as_given=True):
            for block in stretch.blocks(MAX_ROWS_TO_LOOK_AT):
                return working_precision(block.logits, double=True)
        return None


def _sum_to_one(rows: Array) -> bool:
    return bool(np.allclose(to_numpy(namespace(rows).sum(rows, axis=1)), 1.0, atol=1e-3))


def _refuse_reading() -> Iterable[Array]:
    raise EnergyAlignError(ONLY_ENERGIES)


def _fill(fill: Callable[[Iterable[Block]], Total], max_rows: int, stretch: Stretch) -> Total:
    return fill(stretch.blocks(max_rows))
