"""Evidence: logits of a sample, labels, training counts, and where the sample comes from."""

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
from energyalign.core.probabilities import MAX_CHECKED_ROWS, are_log_probabilities, are_probabilities, are_sigmoids

Total = TypeVar("Total", bound=Mergeable)
EvidenceKind: TypeAlias = Literal["training", "out-of-fold", "held-out"]
# Size of a block: small enough that intermediate results in float64 stay in the processor's cache.
_NUMBERS_PER_BLOCK = 1 << 18
_IMBALANCED = 2.0
ONLY_ENERGIES = (
    "this estimator needs the logits, and this evidence has only energies: "
    "use estimator 'lse' or 'prior', or fit on logits that can be read again."
)


@dataclass(frozen=True, eq=False)
class Evidence:
    """Logits that can be read several times, in parts, with optional labels and training counts.

    With labels, samples are weighted so that all classes present have the same total weight: no re-sampling is needed.
    Without labels, the sample is assumed to be balanced.

    Create it with `from_arrays`, `from_blocks` or `from_parts`.

    Attributes
    ----------
    counts : array of shape (n_classes,) or None
        Training samples per class.
    kind : {"training", "out-of-fold", "held-out"}
        Whether the model was trained on these samples, default="training". Accuracy on memorised samples is too high,
        so `auto` does not use it to choose on ``training`` evidence.
    groups : array of shape (n_samples,) or None
        Samples that must stay together when the evidence is split, for example the folds of an outer cross-validation.
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
        """Create evidence from arrays in memory (NumPy, torch, ...); the columns of a data frame name the classes.

        Logits have shape (n, n_classes), (n,) or (n, 1) for one logit of two classes, (n, tokens, n_classes), or
        (n, n_classes, height, width). Positions with the label `ignore_index` (default -100) are left out. Repeats and
        groups are per sample; by default the tokens or pixels of a sample form a group.
        """
        columns = columns_of(logits)
        logits = array_of(logits)
        if columns is None or class_names is None:
            class_names = columns if class_names is None else class_names
        else:
            order = order_by_name(columns, names_of(class_names), "the columns of the logits", "class_names")
            logits = logits[:, order]
        rows = open_head(logits, labels, ignore_index=ignore_index)
        block = as_logits(rows.logits)
        parts: list[LogitPart] = [Rows(block)]
        engine: Engine = IN_TURN
        # Other array libraries have their own threads or devices.
        if isinstance(block, np.ndarray) and block.size > NUMBERS_PER_PART:
            parts = [Rows(piece) for _, piece in row_pieces(block, max(1, NUMBERS_PER_PART // block.shape[1]))]
            engine = ThreadsOfEachPass()
        return cls.from_parts(
            parts, block.shape[1], rows.labels,
            repeats=rows.per_row("repeats", repeats), counts=counts, kind=kind, class_names=class_names,
            groups=rows.groups(groups), engine=engine,
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
        """Create evidence from a function that yields the same blocks at every call."""
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
        """Create evidence from parts. Results do not depend on how the engine distributes them.

        Without `counts`, the label counts are used if the largest is at least twice the smallest. Otherwise the
        sample is taken to be balanced, so that it says nothing about the training data.
        """
        n_samples = sum(part.n_rows for part in parts)
        if n_samples < 1:
            raise EnergyAlignError("the evidence is empty: give at least one row of logits whose label is not ignored.")
        if kind not in get_args(EvidenceKind):
            raise EnergyAlignError(f"unknown kind of evidence {kind!r}: choose {', '.join(get_args(EvidenceKind))}.")
        if class_names is not None and len(class_names) != n_classes:
            raise EnergyAlignError(f"class_names must have {n_classes} entries, one per class, got {len(class_names)}.")
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
        """Create evidence without logits, from the accumulated energies of a stream or of merged shards."""
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
        """Return the same samples, processed by `engine`."""
        return replace(self, engine=engine)

    def subset(self, keep: Bools) -> Self:
        """Return the evidence with only the samples for which `keep` is true."""
        return replace(
            self, keep=keep if self.keep is None else self.keep & keep, probabilities=self.holds_probabilities
        )

    def unlabelled(self) -> Self:
        """Return the same samples without labels, counts and groups."""
        return replace(self, labels=None, counts=None, groups=None)

    @cached_property
    def estimated(self) -> dict[object, Any]:
        """Cache of estimated energies, by estimator and clusters."""
        return {}

    def names_of(self, classes: Iterable[int]) -> list[str]:
        """Return the names of these classes, or their numbers."""
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
        """How often each sample counts: its repeats, or 0 if it is not kept."""
        # Not cached: for millions of samples and several folds, these arrays would take most of the memory.
        return occurrences(self.n_samples, self.repeats, self.keep)

    @cached_property
    def _class_weights(self) -> Floats | None:
        """Weight of a sample of each class: all classes present have the same total, and the mean weight is 1."""
        seen = self.label_counts
        if seen is None:
            return None
        present = seen > 0
        return np.asarray(np.divide(seen.sum() / present.sum(), seen, out=np.zeros(self.n_classes), where=present))

    @cached_property
    def total_weight(self) -> float:
        """Sum of the weights of all samples, times their repeats."""
        if self.accumulated is not None:
            _refuse_reading()
        return float(self.occurrences.sum())  # weights are 1 on average

    def blocks(self, max_rows: int | None = None) -> Iterator[Block]:
        """Yield the samples in blocks of at most `max_rows` rows."""
        for stretch in self._stretches():
            yield from stretch.blocks(max_rows or self._rows_of(_NUMBERS_PER_BLOCK))

    def accumulate(self, fill: Callable[[Iterable[Block]], Total], max_numbers: int = _NUMBERS_PER_BLOCK) -> Total:
        """Make one pass: call `fill` on the blocks of each part and merge the results in the order of the parts.

        `fill` and its result must be picklable: the engine may call it in other processes.
        """
        total = fill(())
        stretches = [stretch for stretch in self._stretches() if stretch.counts]
        for result in self.engine.map(partial(_fill, fill, self._rows_of(max_numbers)), stretches):
            total.merge(result)
        return total

    def _rows_of(self, numbers: int) -> int:
        return max(1, numbers // self.n_classes)

    def _stretches(self, *, as_given: bool = False) -> Iterator[Stretch]:
        """Yield the parts with the labels and weights of their samples; `as_given` does not convert probabilities."""
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
        """Free energies of the balanced evidence: computed in one pass and cached."""
        if self.accumulated is not None:
            return self.accumulated
        compiled = self.uses_compiled_loops(ONE_PASS)
        # A whole part at a time: the reduction splits it further.
        return self.accumulate(partial(energy_of_blocks, self.n_classes, compiled), NUMBERS_PER_PART)

    def uses_compiled_loops(self, min_numbers: int) -> bool:
        """Return whether compiled loops are installed and there are at least `min_numbers` logits."""
        return worthwhile(self.n_samples * self.n_classes, min_numbers)

    @cached_property
    def masked(self) -> Bools:
        """Classes whose logit is -inf for every sample: they are never predicted and keep shift 0."""
        rows = self._first_rows
        if rows is not None and np.all(to_numpy(namespace(rows).max(rows, axis=0)) > -np.inf):  # false for NaN
            return np.zeros(self.n_classes, dtype=bool)
        return np.asarray(np.isneginf(self.free_energy.values))

    @cached_property
    def unseen(self) -> Bools:
        """Unmasked classes without labelled samples: their own energy cannot be estimated."""
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
        """Whether the first rows are probabilities; reading then yields their logarithms."""
        if self.probabilities is not None:
            return self.probabilities
        return self._first_rows is not None and are_probabilities(self._first_rows)

    @cached_property
    def holds_log_probabilities(self) -> bool:
        """Whether the first rows are probabilities or their logarithms: normalised, so not logits."""
        if self.holds_probabilities:
            return True
        return self._first_rows is not None and are_log_probabilities(self._first_rows)

    @cached_property
    def holds_one_probability(self) -> bool:
        """Whether the first rows look like (0, p) with a probability p, instead of one logit."""
        return self._first_rows is not None and are_sigmoids(self._first_rows)

    @cached_property
    def _first_rows(self) -> Array | None:
        """The first samples, not converted to logits; None if there are only energies."""
        if self.accumulated is not None:
            return None
        for stretch in self._stretches(as_given=True):
            for block in stretch.blocks(MAX_CHECKED_ROWS):
                return working_precision(block.logits, double=True)
        return None


def _refuse_reading() -> Iterable[Array]:
    raise EnergyAlignError(ONLY_ENERGIES)


def _fill(fill: Callable[[Iterable[Block]], Total], max_rows: int, stretch: Stretch) -> Total:
    return fill(stretch.blocks(max_rows))
