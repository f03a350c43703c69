"""The label distribution that predictions are meant for."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from energyalign.core.arrays import Floats
from energyalign.core.errors import EnergyAlignError, some_of


def check_target_prior(prior: npt.ArrayLike | None, n_classes: int) -> Floats:
    """The target prior as probabilities that sum to one; uniform for None. Any positive scale is accepted."""
    if prior is None:
        return np.full(n_classes, 1.0 / n_classes)
    values = np.asarray(prior, dtype=np.float64)
    if values.shape != (n_classes,):
        raise EnergyAlignError(f"target prior must have shape ({n_classes},), one per class, not {values.shape}.")
    wrong = np.flatnonzero(~np.isfinite(values) | (values <= 0))
    if len(wrong):
        raise EnergyAlignError(
            f"target prior must be positive; wrong for classes {some_of(wrong.tolist())} (counted from 0). "
            "For a class that never occurs give a small probability, or mask its logits with -inf."
        )
    return np.asarray(values / values.sum())
