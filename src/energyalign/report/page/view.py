"""Data of the live part: logits with labels, and the corrections that can be applied to them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from energyalign.core.arrays import Bools, Floats, Ints
from energyalign.core.objectives import METRICS
from energyalign.core.shifts import Shifts

Block = NDArray[np.float32]
BUDGET = 7_000_000
"""Maximum bytes of logits in a page, before base64 adds a third."""
FAR = 200.0
"""A class whose logit is this far below the largest cannot win, for example a class masked by -1e9 or -inf."""
MIN_CANDIDATES = 20
"""Minimum number of classes kept per image; if these are still too large, images are left out."""
_LEVELS = 2**16 - 1
_MIN_RANGE = 1e-30
"""Avoids a step of 0 where all logits of every image are equal."""


@dataclass(frozen=True)
class Correction:
    """Fitted shifts for this network."""

    name: str
    fitted: Shifts

    @property
    def shifts(self) -> Floats:
        """Shifts for a uniform target prior; the page adds the chosen target prior."""
        return self.fitted.values - self.fitted.log_target

    @property
    def is_sane(self) -> bool:
        """Whether the page can compute with these shifts, which are too large if they offset a class masked by -1e9."""
        return bool(np.ptp(self.shifts) < FAR)

    def to_json(self) -> dict[str, Any]:
        """Return the data for the page's script: shifts in float32, the displayed numbers, and the file to save."""
        return {
            "name": self.name,
            "shifts": [float(str(shift)) for shift in np.asarray(self.shifts, dtype=np.float32)],
            "strength": self.fitted.strength,
            "errors": _numbers(self.fitted.standard_errors, digits=4),
            "effective": _numbers(self.fitted.effective_samples, digits=4),
            "file": self.fitted.to_json(),
        }


@dataclass(frozen=True)
class View:
    """Raw logits with labels.

    Attributes
    ----------
    name : str
        Name of the step; empty for a run without steps.
    blocks : callable
        Returns the logits, in blocks of images.
    labels : array
    class_names : sequence of str
    counts : array or None
        Training images of each class.
    groups : mapping from str to array of bool
        Groups of classes whose mean accuracy is shown.
    in_steps : bool
        Whether classes are in order of arrival.
    corrections : sequence of Correction
    target : array or None, default None
        The target prior that the shifts were fitted for; None for a uniform one.
    scoring, aim : str, default "balanced_accuracy"
        The objective that the shifts were fitted for, and its name on the page.
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
    scoring: str = "balanced_accuracy"
    aim: str = "balanced_accuracy"

    def to_json(self, budget: int) -> dict[str, Any]:
        """Return the data for the page's script, with at most `budget` bytes of logits."""
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
            "labels": _base64(self.labels[encoded.kept].astype("<u4").tobytes()),
            "corrections": [correction.to_json() for correction in corrections],
            "target": _numbers(self.target),
            "score": {"metric": self.scoring, "name": self.aim} if self._has_own_score else None,
            **encoded.to_json(),
            "note": " ".join(filter(None, [self._note_on_score, encoded.note])),
        }

    @property
    def _has_own_score(self) -> bool:
        """Whether the page shows another score besides balanced accuracy."""
        return self.scoring in METRICS and self.scoring != "balanced_accuracy"

    @property
    def _note_on_score(self) -> str:
        if self.scoring in METRICS:
            return ""
        return f"The shifts were fitted for {self.aim}, which this page cannot compute: it shows balanced accuracy."


def _numbers(values: Floats | None, digits: int = 17) -> list[float | None] | None:
    """Round to significant digits, with None for NaN, which JSON does not have."""
    if values is None:
        return None
    numbers = np.asarray(values, dtype=np.float64)
    return [float(f"{number:.{digits}g}") if np.isfinite(number) else None for number in numbers]


@dataclass(frozen=True)
class EncodedLogits:
    """Logits as the page's script reads them.

    Attributes
    ----------
    kept : array
        Indices of the images.
    values : bytes
        Little-endian, image after image: float32 logits of all classes, or uint16 steps below the largest logit.
    classes : bytes or None
        Class of each value, uint16 or uint32; None if all classes are present, in order.
    n_candidates : int
        Number of values per image.
    step : float
        Size of a uint16 step; 0 for float32 logits.
    n_images, n_classes : int
        Size of the logits before encoding.
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
        """Note on what was left out or rounded to keep the page small; empty if nothing was."""
        notes = []
        if len(self.kept) < self.n_images:
            notes.append(
                f"To stay small, this page holds {len(self.kept):,} of the {self.n_images:,} images, spread evenly "
                "over the classes, so its numbers differ from the numbers in the tables."
            )
        if self.classes is not None and self.n_candidates < self.n_classes:
            notes.append(
                f"For each image it holds the {self.n_candidates} of {self.n_classes:,} classes that come closest to "
                "winning, raw or with fitted shifts; at other strengths and for other target priors, numbers are "
                "approximate."
            )
        if self.step:
            notes.append(f"Logits are rounded to {self.step:.1g}.")
        return " ".join(notes)

    def to_json(self) -> dict[str, Any]:
        """Return the data for the page's script."""
        return {
            "values": _base64(self.values),
            "classes": None if self.classes is None else _base64(self.classes),
            "candidates": self.n_candidates,
            "step": self.step,
        }


def encode_logits(
    blocks: Iterable[Block], labels: Ints, shifts: Sequence[Floats], n_classes: int, budget: int = BUDGET
) -> EncodedLogits:
    """Encode logits that come in blocks of images.

    If float32 logits of all images and classes exceed the budget, each image keeps the classes that come closest to
    winning, raw or with one of the shifts: these predictions are then exact up to rounding. If
    `MIN_CANDIDATES` classes still exceed it, images are left out, evenly over the classes.
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
    step = max(float(below.max()), _MIN_RANGE) / _LEVELS
    steps = np.rint(below / step).astype("<u2")
    return EncodedLogits(
        kept, steps.tobytes(), classes.astype(index_type).tobytes(), n_candidates, step, n_images, n_classes
    )


def evenly_over_classes(labels: Ints, most: int) -> Ints:
    """Return at most `most` sorted indices, spread as evenly over classes as possible; deterministic."""
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
    """Return the classes of each kept image in ascending order, and how far each raw logit is below the largest."""
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
