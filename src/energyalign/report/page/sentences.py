"""Sentences that several pages share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from energyalign.core.arrays import Floats
from energyalign.core.errors import count_of


def describe_changes(before: Floats, after: Floats, class_names: Sequence[str]) -> str:
    """Say how many classes gained and lost accuracy, and which lost most; NaN marks a class without samples."""
    change = after - before
    gained, lost = (int(np.sum(sign * change > 0)) for sign in (1, -1))
    text = f"{count_of(gained, 'class')} gained accuracy and {lost} lost some"
    if not lost:
        return f"{text}."
    worst = int(np.nanargmin(change))
    return f"{text}; class {class_names[worst]} lost most: {100 * before[worst]:.1f} % → {100 * after[worst]:.1f} %."


def describe_bias(evidence_kind: str) -> str:
    """Say why scores on the evidence are optimistic."""
    seen = "model may have been trained" if evidence_kind == "training" else "shifts were fitted"
    return f"The {seen} on these samples, so the numbers are optimistic: measure on other samples before quoting them."
