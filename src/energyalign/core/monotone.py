"""Energies smoothed by isotonic regression on the training counts: clustering with no number to choose."""

from __future__ import annotations

import numpy as np

from energyalign.core.arrays import Bools, Floats


def smooth(energies: Floats, standard_errors: Floats, counts: Floats, usable: Bools) -> tuple[Floats, Floats]:
    """The energies nearest to those given that do not fall as the training count grows.

    A class the model saw more often should not have a smaller negative free energy; where noise says so,
    neighbours are pooled. Each energy weighs by its precision, 1 / standard error². Classes that are not
    `usable` take the value at their count; beyond the counts of all usable classes it goes on as theory says,
    with the logarithm of the count.

    Returns
    -------
    energies, standard_errors : arrays of shape (n_classes,)
        Classes of one pool have one value and the standard error of the pool's weighted mean.
    """
    from sklearn.isotonic import IsotonicRegression

    # An unknown error weighs next to nothing. Without errors (known energies) all weigh the same. A class measured
    # far better than the median weighs at most a hundred times as much: one lucky error must not decide a pool.
    errors = np.minimum(standard_errors[usable], 1e6)
    floor = 0.1 * float(np.median(errors))
    weights = 1.0 / np.maximum(errors, floor) ** 2 if floor > 0 else np.ones(len(errors))
    regression = IsotonicRegression(increasing=True, out_of_bounds="clip")
    regression.fit(counts[usable], energies[usable], sample_weight=weights)
    smoothed = np.asarray(regression.predict(counts), dtype=np.float64)
    nearest = np.clip(counts, counts[usable].min(), counts[usable].max())
    smoothed += np.where(usable, 0.0, np.log(counts / nearest))
    if floor == 0:
        return smoothed, np.zeros_like(smoothed)
    pool_of_usable = np.searchsorted(np.unique(smoothed[usable]), smoothed[usable])
    precision = np.bincount(pool_of_usable, weights=weights)
    pool = np.clip(np.searchsorted(np.unique(smoothed[usable]), smoothed), 0, len(precision) - 1)
    return smoothed, 1.0 / np.sqrt(precision[pool])
