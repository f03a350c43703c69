"""Whether an edited model gives raw logits + shifts, and is otherwise the model it was."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from energyalign.core.errors import EnergyAlignError
from energyalign.onnx.comparing import Values, along, close, largest_difference
from energyalign.onnx.logits import FoundLogits, shows


class NotAligned(EnergyAlignError):
    """An edit that does not do what it should; the message says what was seen."""


def verify(before: Sequence[Values], after: Sequence[Values], logits: FoundLogits, unrelated: Collection[str]) -> float:
    """Compare runs of the raw and the edited model on the same inputs; returns the largest error of a logit.

    Parameters
    ----------
    unrelated : names of outputs
        Those that are not computed from the logits, and must be as they were.
    """
    worst = 0.0
    for old, new in zip(before, after, strict=True):
        raw = old[logits.tensor]
        wanted = raw.astype(np.float64) + along(logits.added, logits.axis, raw.ndim)
        found = new[logits.tensor]
        deviation = largest_difference(found, wanted)
        if not close(found, wanted, like=raw):
            raise NotAligned(f"the logits are off by {deviation:.2g}")
        for output, form in logits.outputs.items():
            if not shows(new[output], found, form, logits.axis):
                raise NotAligned(f"output {output!r} does not show the corrected logits")
        for output in unrelated:
            if not close(new[output], old[output]):
                raise NotAligned(f"output {output!r} changed, which is not computed from the logits")
        worst = max(worst, deviation)
    return worst
