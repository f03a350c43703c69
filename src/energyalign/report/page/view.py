"""What the live part shows: one set of logits, and the corrections that can be put behind it."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from energyalign.core.arrays import Bools, Floats, Ints
from energyalign.core.shifts import Shifts

Block = NDArray[np.float32]
BUDGET = 7_000_000
"""Bytes of logits in one page at most, before base64 makes four out of three."""
FAR = 200.0
"""A class whose logit is so far below the largest cannot win; masked classes, at -1e9 or minus infinity, are."""
MIN_CANDIDATES = 20
"""Classes of an image that are kept at least; below that, images are left out instead."""
_LEVELS = 2**16 - 1
_SMALLEST = 1e-30
"""Where all logits of every image are equal, there is no step between them."""


@dataclass(frozen=True)
class Correction:
    """Shifts that were learnt for this network, at full strength."""

    name: str
    full: Shifts

    @property
    def shifts(self) -> Floats:
        """For a uniform target: the page adds the target that is chosen there."""
        return self.full.values - self.full.log_target

    @property
    def is_sane(self) -> bool:
        """Whether it can be computed with: shifts that make up for a masked class, at -1e9, cannot."""
        return bool(np.ptp(self.shifts) < FAR)

    def to_json(self) -> dict[str, Any]:
        """For the page's script: shifts as they are added, in float32; the rest as it is shown; and as it is saved."""
        return {
            "name": self.name,
            "shifts": [float(str(shift)) for shift in np.asarray(self.shifts, dtype=np.float32)],
            "errors": _numbers(self.full.standard_errors, digits=4),
            "effective": _numbers(self.full.effective_samples, digits=4),
            "file": self.full.to_json(),
        }


@dataclass(frozen=True)
class View:
    """Logits with labels, as the raw model gave them.

    Attributes
    ----------
    name : str
        Of the step, of a run that has steps.
    blocks : callable
        Gives the logits, in blocks of images.
    labels : array
    class_names : sequence of str
    counts : array or None
        Training images of each class.
    groups : mapping from str to array of bool
        Classes whose accuracy is shown together.
    in_steps : bool
        Whether classes stand in their order of arrival.
    corrections : sequence of Correction
    target : array or None
        The label distribution that the model was fitted for, if that is another than uniform.
    """

    name: str
    blocks: Callable[[], Iterable[Block]]
    labels: Ints
    class_names: Sequence[str]
    counts: Floats | None
    groups: Mapping[str, Bools]
    in_steps: bool
    corrections: Sequence[Correction]
    target: Floats | None = None

    def to_json(self, budget: int) -> dict[str, Any]:
        """For the page's script, with logits of at most so many bytes."""
        corrections = [correction for correction in self.corrections if correction.is_sane]
        encoded = encode_logits(
            self.blocks(), self.labels, [c.shifts for c in corrections], len(self.class_names), budget
        )
        return {
            "name": self.name,
            "classNames": list(self.class_names),
            "counts": _numbers(self.counts),
            "groups": [
                {"name": name, "classes": np.flatnonzero(members).tolist()} for name, members in self.groups.items()
            ],
            "inSteps": self.in_steps,
            "labels": base64.b64encode(self.labels[encoded.kept].astype("<u4").tobytes()).decode("ascii"),
            "corrections": [correction.to_json() for correction in corrections],
            "target": _numbers(self.target),
            **encoded.to_json(),
        }


def _numbers(values: Floats | None, digits: int = 17) -> list[float | None] | None:
    """With so many digits; JSON has no NaN: None stands for it."""
    if values is None:
        return None
    numbers = np.asarray(values, dtype=np.float64)
    return [float(f"{number:.{digits}g}") if np.isfinite(number) else None for number in numbers]


@dataclass(frozen=True)
class EncodedLogits:
    """What the page computes with.

    Attributes
    ----------
    kept : array
        Which images are shown.
    values : bytes
        Little-endian, image after image: float32 logits of all classes, or uint16 steps below the largest logit.
    classes : bytes or None
        Which class each value is of, uint16 or uint32; None if they are all there, in order.
    n_candidates : int
        Values of each image.
    step : float
        What one step below the largest logit is; 0 for float32.
    n_images, n_classes : int
        Of what was encoded.
    """

    kept: Ints
    values: bytes = field(repr=False)
    classes: bytes | None = field(repr=False)
    n_candidates: int
    step: float
    n_images: int
    n_classes: int

    @property
    def note(self) -> str:
        """What a reader must know of numbers that are computed from it; empty if nothing was left out."""
        told = []
        if len(self.kept) < self.n_images:
            told.append(
                f"To keep the page small it holds {len(self.kept):,} of the {self.n_images:,} images, as many of each "
                "class as possible: its numbers are of these and differ from the tables'."
            )
        if self.classes is not None and self.n_candidates < self.n_classes:
            told.append(
                f"Of every image it holds the {self.n_candidates} classes, of {self.n_classes:,}, that come closest to "
                "winning with no correction or a full one of those offered; between the two, and for other target "
                "priors, another class may win in truth."
            )
        if self.step:
            told.append(f"Logits are rounded to {self.step:.1g}.")
        return " ".join(told)

    def to_json(self) -> dict[str, Any]:
        """For the page's script."""
        return {
            "values": _base64(self.values),
            "classes": None if self.classes is None else _base64(self.classes),
            "candidates": self.n_candidates,
            "step": self.step,
            "note": self.note,
        }


def encode_logits(
    blocks: Iterable[Block], labels: Ints, shifts: Sequence[Floats], n_classes: int, budget: int = BUDGET
) -> EncodedLogits:
    """Encode logits that come in blocks of images.

    If float32 logits of all images and classes do not fit into the budget, each image keeps those classes that come
    closest to winning, raw or under one of the shifts: its predictions at either end are then those of all classes,
    up to rounding. If even few such classes do not fit, images are left out, evenly over the classes.
    """
    n_images = len(labels)
    if 4 * n_images * n_classes <= budget:
        values = b"".join(np.ascontiguousarray(block, dtype="<f4").tobytes() for block in blocks)
        return EncodedLogits(np.arange(n_images), values, None, n_classes, 0.0, n_images, n_classes)
    index_type = np.dtype("<u2") if n_classes <= _LEVELS + 1 else np.dtype("<u4")
    size = 2 + index_type.itemsize
    fewest = min(MIN_CANDIDATES, n_classes)
    kept = evenly_over_classes(labels, max(1, budget // (size * fewest)))
    n_candidates = min(n_classes, max(fewest, budget // (size * len(kept))))
    classes, below = _candidates(blocks, kept, shifts, n_candidates)
    step = max(float(below.max()), _SMALLEST) / _LEVELS
    steps = np.rint(below / step).astype("<u2")
    return EncodedLogits(
        kept, steps.tobytes(), classes.astype(index_type).tobytes(), n_candidates, step, n_images, n_classes
    )


def evenly_over_classes(labels: Ints, most: int) -> Ints:
    """At most so many indices, in order, as many of each class as possible; the same for the same labels."""
    if len(labels) <= most:
        return np.arange(len(labels))
    shuffled = np.random.default_rng(0).permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    sizes = np.bincount(labels)
    starts = np.cumsum(sizes) - sizes
    place_in_class = np.arange(len(labels)) - np.repeat(starts, sizes)
    taken = by_class[np.argsort(place_in_class, kind="stable")[:most]]  # the first of each class, the second, ...
    return np.sort(taken)


def _candidates(
    blocks: Iterable[Block], kept: Ints, shifts: Sequence[Floats], n_candidates: int
) -> tuple[Ints, NDArray[np.float32]]:
    """Classes of each kept image in ascending order, and how far each raw logit is below the largest."""
    every_shift = [np.zeros(1), *shifts]
    all_classes, all_below, start = [], [], 0
    for block in blocks:
        own = kept[(kept >= start) & (kept < start + len(block))] - start
        start += len(block)
        logits = np.asarray(block[own], dtype=np.float32)
        behind = np.full(logits.shape, np.inf, dtype=np.float32)
        for shift in every_shift:
            shifted = logits + np.asarray(shift, dtype=np.float32)
            np.minimum(behind, shifted.max(axis=1, keepdims=True) - shifted, out=behind)
        chosen = np.sort(np.argpartition(behind, n_candidates - 1, axis=1)[:, :n_candidates], axis=1)
        all_classes.append(chosen)
        below = logits.max(axis=1, keepdims=True) - np.take_along_axis(logits, chosen, axis=1)
        all_below.append(np.minimum(below, FAR))
    return np.concatenate(all_classes), np.concatenate(all_below)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
