"""Estimate the label distribution of unlabelled target data."""

from __future__ import annotations

import numpy as np

from energyalign.core._engine.threads import linear_algebra_in_one_thread
from energyalign.core.arrays import Array, Floats
from energyalign.core.clusters import Clusters
from energyalign.core.errors import EnergyAlignError
from energyalign.core.evidence import Evidence
from energyalign.core.mean_posterior import MeanPosterior
from energyalign.core.shifts import Shifts

_MAX_ITERATIONS = 10_000
_MIN_PRIOR = 1e-12


@linear_algebra_in_one_thread()
def estimate_target_prior(logits: Array | Evidence, shifts: Shifts, *, tolerance: float = 1e-8) -> Floats:
    r"""Estimate the label distribution of unlabelled target data by expectation maximisation.

    Start from the target prior of `shifts`, reweight the aligned posteriors to the current estimate, average them,
    and repeat until convergence: the maximum-likelihood mixture of the classes if the aligned model is calibrated.

    Parameters
    ----------
    logits : array of shape (n_samples, n_classes) or Evidence
        Raw logits of the target data; labels are ignored.
    shifts : Shifts
        The shifts of the model that computed the logits.
    tolerance : float, default=1e-8
        Stop when no probability changes by more than this.

    References
    ----------
    Saerens et al., Adjusting the outputs of a classifier to new a priori probabilities, 2002.
    """
    data = logits if isinstance(logits, Evidence) else Evidence.from_arrays(logits)
    if data.n_classes != shifts.n_classes:
        raise EnergyAlignError(
            f"the target data must have {shifts.n_classes} class columns like the shifts, got {data.n_classes}."
        )
    model = MeanPosterior(data.unlabelled(), Clusters.per_class(data.n_classes))
    prior = shifts.target_prior
    for _ in range(_MAX_ITERATIONS):
        # The probability of an absent class tends to 0; its bias must stay finite.
        biases = shifts.values + np.log(np.maximum(prior, 1e-300)) - np.log(shifts.target_prior)
        mass = model.moments(biases, curvature=False).mass
        if np.max(np.abs(mass - prior)) <= tolerance:
            # An absent class keeps a small probability, so that the result is a valid prior.
            seen = np.maximum(mass, _MIN_PRIOR)
            return np.asarray(seen / seen.sum())
        prior = mass
    raise EnergyAlignError(
        f"the target prior did not converge in {_MAX_ITERATIONS:,} iterations: raise the tolerance ({tolerance:g})."
    )
