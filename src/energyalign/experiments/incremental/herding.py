"""Herding: which images of a class stand for it best."""

from __future__ import annotations

import numpy as np

from energyalign.core.arrays import Floats, Ints
from energyalign.core.errors import EnergyAlignError


def herding_order(features: Floats, n_chosen: int) -> Ints:
    """Numbers of the images of one class in the order chosen: any beginning of it is a good small set.

    With φ the features, each row of length 1, and μ their mean, the k-th image is the one that brings the mean of the
    chosen closest to the mean of all::

        x_k = argmin over x not chosen yet of || μ - (φ(x_1) + ... + φ(x_(k-1)) + φ(x)) / k ||

    This is the formula of the iCaRL paper. Its script maximises an inner product instead and throws away repeated
    choices; BiC does not normalise the features. μ is not made of length 1 again. Rows of zeros stay zeros, and of
    equally good images the one with the smaller number is chosen.

    Parameters
    ----------
    features : array (n_images, n_features)
    n_chosen : int
        All images are put in order if it is more than there are.

    References
    ----------
    Rebuffi, Kolesnikov, Sperl, Lampert (2017), iCaRL: Incremental Classifier and Representation Learning.
    Welling (2009), Herding Dynamical Weights to Learn.

    Examples
    --------
    >>> herding_order(np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]]), 2).tolist()
    [2, 0]
    """
    phi = np.asarray(features, dtype=np.float64)
    if phi.ndim != 2 or not len(phi):
        raise EnergyAlignError(
            f"features must be an array (n_images, n_features) with an image at least, not of shape {phi.shape}."
        )
    if not np.isfinite(phi).all():
        row = int(np.nonzero(~np.isfinite(phi).all(axis=1))[0][0])
        raise EnergyAlignError(f"features of image {row} are not finite: the network has diverged, train it anew.")
    lengths = np.linalg.norm(phi, axis=1, keepdims=True)
    phi = phi / np.where(lengths > 0.0, lengths, 1.0)
    mean = phi.mean(axis=0)

    chosen: list[int] = []
    free = np.ones(len(phi), dtype=bool)
    total = np.zeros_like(mean)
    for k in range(1, min(n_chosen, len(phi)) + 1):
        # k times the distance, squared: the same argmin. Not by a matrix product, in which equal rows may differ.
        distances = np.square((k * mean - total) - phi).sum(axis=1)
        best = int(np.argmin(np.where(free, distances, np.inf)))
        chosen.append(best)
        free[best] = False
        total += phi[best]
    return np.array(chosen, dtype=np.int64)
