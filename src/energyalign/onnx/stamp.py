"""A note in the model that it is aligned, so that it is not aligned twice."""

from __future__ import annotations

import hashlib
import json

from energyalign import __version__
from energyalign.core.errors import EnergyAlignError
from energyalign.core.shifts import Shifts
from energyalign.onnx.graph import Model

KEY = "energyalign"


def stamp(model: Model, shifts: Shifts) -> None:
    """Add one entry to the model's metadata: what was added to the logits, and by which version."""
    note = {
        "version": __version__,
        "estimator": shifts.estimator,
        "n_classes": shifts.n_classes,
        "sha256": hashlib.sha256(shifts.values.astype("<f8").tobytes()).hexdigest(),
    }
    model.metadata_props.add(key=KEY, value=json.dumps(note))


def refuse_aligned(model: Model, name: str) -> None:
    """Shifts added a second time would turn the bias around."""
    note = next((entry.value for entry in model.metadata_props if entry.key == KEY), None)
    if note is not None:
        raise EnergyAlignError(f"{name} is already aligned (its metadata has {note}): start from the original file.")
