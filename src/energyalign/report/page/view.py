"""What the live part shows: one set of logits, and the corrections that can be put behind it."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from energyalign.core.arrays import Bools, Floats, Ints
from energyalign.report.page.encoding import FAR, Block, encode_logits


@dataclass(frozen=True)
class Correction:
    """Shifts that were learnt for this network, and how sure they are."""

    name: str
    shifts: Floats
    standard_errors: Floats | None = None
    effective_samples: Floats | None = None

    @property
    def is_sane(self) -> bool:
        """Whether it can be computed with: shifts that make up for a masked class, at -1e9, cannot."""
        return bool(np.all(np.isfinite(self.shifts)) and np.ptp(self.shifts) < FAR)

    def to_json(self) -> dict[str, Any]:
        """For the page's script: shifts as they are added, in float32; the rest as it is shown."""
        return {
            "name": self.name,
            "shifts": [float(str(shift)) for shift in np.asarray(self.shifts, dtype=np.float32)],
            "errors": _numbers(self.standard_errors, digits=4),
            "effective": _numbers(self.effective_samples, digits=4),
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
    target : array or None
        The label distribution that the model was fitted for, if that is another than uniform.
    """

    name: str
    blocks: Callable[[], Iterable[Block]]
    labels: Ints
    class_names: Sequence[str]
    counts: Floats | None
    groups: Mapping[str, Bools]
    is_pooled: bool
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
            "pooled": self.is_pooled,
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
