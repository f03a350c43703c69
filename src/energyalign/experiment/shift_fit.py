"""Shifts for a result row: the doubts about them are in the row, and no evidence is drawn that nobody would look at."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from energyalign.core.arrays import Ints
from energyalign.core.errors import UntrustedEstimateWarning
from energyalign.core.evidence import Evidence
from energyalign.core.fitting import fit_shifts
from energyalign.core.sharing import SharingChoice
from energyalign.core.shifts import Shifts


def looks_at_evidence(estimator: str) -> bool:
    """Logit adjustment knows the counts only, and the raw network nothing."""
    return estimator not in ("none", "prior")


def fit_for_row(estimator: str, clusters: SharingChoice, *, counts: Ints, evidence: Callable[[], Evidence]) -> Shifts:
    """The shifts of this estimator and way of sharing; `evidence` is called if the estimator looks at it."""
    if looks_at_evidence(estimator):
        return _quietly(evidence(), estimator, clusters)
    # Evidence that says nothing of the network, which saves a pass over images.
    nothing = Evidence.from_arrays(np.zeros((1, len(counts))), counts=counts, kind="training")
    shifts = _quietly(nothing, estimator, clusters)
    return replace(shifts, energies=None, effective_samples=None)  # nothing was measured


def _quietly(evidence: Evidence, estimator: str, clusters: SharingChoice) -> Shifts:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustedEstimateWarning)  # they are in the row, and in the table
        return fit_shifts(evidence, estimator=estimator, clusters=clusters)
