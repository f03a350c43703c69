"""Verify that an edited model returns raw logits + shifts, and is otherwise unchanged."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from energyalign.core.errors import EnergyAlignError
from energyalign.onnx.comparing import Values, along, close, largest_difference
from energyalign.onnx.logits import FoundLogits, shows


class NotAligned(EnergyAlignError):
    """An edit that failed verification; the message says what differs."""


def verify(before: Sequence[Values], after: Sequence[Values], logits: FoundLogits, unrelated: Collection[str]) -> float:
    """Compare runs of the raw and the edited model on the same inputs; return the largest deviation of a logit.

    Parameters
    ----------
    before, after : sequence of Values
        Runs of the raw and of the edited model.
    logits : FoundLogits
    unrelated : collection of str
        Outputs that are not computed from the logits, and must not change.
    """
    worst = 0.0
    for old, new in zip(before, after, strict=True):
        raw = old[logits.tensor]
        expected = raw.astype(np.float64) + along(logits.added, logits.axis, raw.ndim)
        aligned = new[logits.tensor]
        deviation = largest_difference(aligned, expected)
        if not close(aligned, expected, like=raw):
            raise NotAligned(f"the logits are off by {deviation:.2g}")
        for output, form in logits.outputs.items():
            if not shows(new[output], aligned, form, logits.axis):
                raise NotAligned(f"output {output!r} does not follow the aligned logits")
        for output in unrelated:
            if not close(new[output], old[output]):
                raise NotAligned(f"output {output!r} is not computed from the logits, but changed")
        worst = max(worst, deviation)
    return worst
