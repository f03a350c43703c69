"""From evidence to shifts: the one way in for every front door."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt

from energyalign.core._engine.threads import linear_algebra_in_one_thread
from energyalign.core.checks import check_target_prior
from energyalign.core.errors import UntrustedEstimateWarning
from energyalign.core.evidence import Evidence
from energyalign.core.selection.auto import select
from energyalign.core.sharing import SharingChoice
from energyalign.core.shifts import Shifts
from energyalign.core.trust import concerns


def fit_shifts(
    evidence: Evidence,
    *,
    estimator: str = "auto",
    clusters: SharingChoice = "auto",
    target_prior: npt.ArrayLike | None = None,
    tau: float = 1.0,
) -> Shifts:
    """Estimate the shifts that take the class-imbalance bias out of the model behind the evidence.

    Parameters
    ----------
    evidence : Evidence
        Logits on a class-balanced sample, or a labelled sample that is weighted to be balanced.
    estimator : str, default="auto"
        How class energies are measured: a name of `energyalign.core.estimators.ESTIMATORS`, or ``auto``: the first
        of ``shrunk``, ``marginal``, ``lse`` and ``prior`` that applies, scaled by what pays on samples that the model
        has not seen, down to the raw model.
    clusters : "auto", "per-class", "monotone", "jenks", int, sequence of int, or Clusters, default="auto"
        Which classes share a shift; a number means so many Jenks clusters of the training counts, and ``jenks``
        the number of them that scores best, as in the paper.
    target_prior : array of shape (n_classes,) or dict, optional
        The label distribution to predict for; uniform if not given.
    tau : float, default=1.0
        Scale of estimator ``prior``.

    Returns
    -------
    Shifts

    Warns
    -----
    UntrustedEstimateWarning
        If the estimate's own diagnostics do not support it. Nothing is replaced silently.
    """
    target = check_target_prior(target_prior, evidence.n_classes, evidence.class_names)
    with linear_algebra_in_one_thread():
        result, selection = select(evidence, estimator, clusters, tau, target)
    doubts = tuple(concerns(evidence, result, selection))
    for doubt in doubts:
        warnings.warn(doubt, UntrustedEstimateWarning, stacklevel=2)
    return Shifts(
        values=result.shifts + np.log(target * evidence.n_classes),
        standard_errors=result.standard_errors,
        clusters=result.clusters,
        target_prior=target,
        estimator=result.estimator.name,
        tau=tau,
        strength=result.strength,
        energies=evidence.free_energy.values,
        effective_samples=evidence.free_energy.effective_samples,
        counts=evidence.counts,
        class_names=evidence.class_names,
        evidence_kind=evidence.kind,
        from_probabilities=evidence.holds_probabilities,
        n_samples=evidence.free_energy.n_samples,
        selection=selection,
        concerns=doubts,
    )
