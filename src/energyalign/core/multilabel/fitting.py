"""Fit the shifts of independent labels."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from energyalign.core.arrays import Floats
from energyalign.core.errors import EnergyAlignError, UntrustedEstimateWarning, warn_untrusted
from energyalign.core.evidence import Evidence
from energyalign.core.fitting import fit_shifts
from energyalign.core.multilabel.evidence import MultilabelEvidence
from energyalign.core.multilabel.shifts import MultilabelShifts
from energyalign.core.names import Counts, counts_by_class
from energyalign.core.objectives.constraints import minima_by_class
from energyalign.core.shifts import Shifts


def fit_multilabel(
    evidence: MultilabelEvidence, *, target_prior: Counts | None = None, **options: Any
) -> MultilabelShifts:
    """Fit the shifts of each label on its own.

    Parameters
    ----------
    evidence : MultilabelEvidence
    target_prior : array of shape (n_labels,), dict or pandas Series, optional
        Probability of each label in the data to predict, default=0.5.
    **options
        Options of `energyalign.fit_shifts`; `minimum_recall` and `minimum_precision` by label.
    """
    names = evidence.class_names
    targets = [None] * len(names) if target_prior is None else _check_targets(target_prior, names)
    minima = {
        option: minima_by_class(options.pop(option, None), names, option)
        for option in ("minimum_recall", "minimum_precision")
    }

    def fit(k: int) -> Shifts:
        aims: dict[str, Any] = {option: {names[k]: own[k]} for option, own in minima.items() if k in own}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UntrustedEstimateWarning)  # issued below with the label
            shifts = fit_shifts(evidence.labels[k], target_prior=targets[k], **aims, **options)
        return replace(shifts, concerns=tuple(f"label {names[k]}: {concern}" for concern in shifts.concerns))

    fitted = MultilabelShifts(tuple(map(fit, range(len(names)))))
    for concern in fitted.concerns:
        warn_untrusted(concern)
    return fitted


def fit_head(evidence: Evidence | MultilabelEvidence, **options: Any) -> Shifts | MultilabelShifts:
    """Fit shifts of classes or of independent labels, depending on the evidence."""
    if isinstance(evidence, MultilabelEvidence):
        return fit_multilabel(evidence, **options)
    return fit_shifts(evidence, **options)


def _check_targets(target_prior: Counts, names: Sequence[str]) -> list[Floats | None]:
    """Return the target prior of each label: without and with it."""
    n_labels = len(names)
    given = np.asarray(counts_by_class(target_prior, names, n_labels, source="target prior")[0], dtype=np.float64)
    if given.shape != (n_labels,) or not np.all((given > 0) & (given < 1)):
        raise EnergyAlignError(
            f"target prior of independent labels must have shape ({n_labels},), with probabilities between 0 and 1."
        )
    return list(np.column_stack([1.0 - given, given]))
