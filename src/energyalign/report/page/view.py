"""What the live part shows: one set of logits, and the corrections that can be put behind it."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from energyalign.core.arrays import Bools, Floats, Ints
from energyalign.report.page.encoding import Block, encode_logits


@dataclass(frozen=True)
class Correction:
    """Shifts that were learnt for this network, and how sure they are."""

    name: str
    shifts: Floats
    standard_errors: Floats | None = None
    effective_samples: Floats | None = None

    def to_json(self) -> dict[str, Any]:
        """For the page's script."""
        return {
            "name": self.name,
            "shifts": _numbers(self.shifts),
            "errors": _numbers(self.standard_errors),
            "effective": _numbers(self.effective_samples),
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
    is_pooled : bool
        Whether the images of a group count the same; its classes do otherwise.
    corrections : sequence of Correction
    """

    name: str
    blocks: Callable[[], Iterable[Block]]
    labels: Ints
    class_names: Sequence[str]
    counts: Floats | None
    groups: Mapping[str, Bools]
    is_pooled: bool
    corrections: Sequence[Correction]

    def to_json(self, budget: int) -> dict[str, Any]:
        """For the page's script, with logits of at most so many bytes."""
        encoded = encode_logits(
            self.blocks(), self.labels, [c.shifts for c in self.corrections], len(self.class_names), budget
        )
        return {
            "name": self.name,
            "classNames": list(self.class_names),
            "counts": _numbers(self.counts),
            "groups": [
                {"name": name, "classes": np.flatnonzero(members).tolist()} for name, members in self.groups.items()
            ],
            "pooled": self.is_pooled,
            "labels": base64.b64encode(self.labels[encoded.kept].astype("<u4").tobytes()).decode("ascii"),
            "corrections": [correction.to_json() for correction in self.corrections],
            **encoded.to_json(),
        }


def _numbers(values: Floats | None) -> list[float | None] | None:
    """JSON has no NaN: None stands for it."""
    if values is None:
        return None
    return [float(value) if np.isfinite(value) else None for value in np.asarray(values, dtype=np.float64)]
