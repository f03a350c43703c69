"""Probabilities of a model that was trained on re-sampled or weighted data, for the real class frequencies."""

from __future__ import annotations

import numpy as np

from energyalign.core.arrays import Array, Bools, array_of, is_floating, like, namespace, to_numpy
from energyalign.core.checks import check_counts, check_target_prior
from energyalign.core.errors import BadValueError, EnergyAlignError
from energyalign.core.names import Counts, columns_of, counts_by_class

_TOLERANCE = 1e-3  # of sums of rounded probabilities


def real_probabilities(probabilities: Array, *, trained_on: Counts, real: Counts) -> Array:
    r"""Turn what a model says of the classes it was shown into probabilities for the frequencies they really have.

    By the rule of Bayes :math:`p_{real}(y \mid x) \propto p(y \mid x) \, \pi_{real}(y) / \pi_{trained}(y)`. Exact if
    the model is calibrated for the data it was trained on.

    Parameters
    ----------
    probabilities : array of shape (n_samples, n_classes) or (n_samples,), or pandas DataFrame
        Of each class; or of the second of two, as boosters give them.
    trained_on : array of shape (n_classes,), dict or pandas Series
        How much of each class the training saw: samples after re-sampling, or the sum of their weights. By name
        wherever it and the columns of `probabilities` have names; so is `real`.
    real : array of shape (n_classes,), dict or pandas Series
        How frequent the classes really are: counts before re-sampling, or frequencies. The scale does not matter.

    Returns
    -------
    array
        Of the kind and shape of `probabilities`.

    References
    ----------
    Saerens et al., Adjusting the outputs of a classifier to new a priori probabilities, 2002.
    Dal Pozzolo et al., Calibrating probability with undersampling for unbalanced classification, 2015.

    Examples
    --------
    Trained on as many frauds as other payments, of which there are really 99 for each fraud:

    >>> import numpy as np
    >>> real_probabilities(np.array([0.5, 0.99]), trained_on=[1, 1], real=[99, 1]).round(4).tolist()
    [0.01, 0.5]
    """
    given = array_of(probabilities)
    if not hasattr(given, "dtype") or not is_floating(given) or given.ndim not in (1, 2):
        raise EnergyAlignError(
            "probabilities must be a floating array, samples x classes or one number per sample, "
            f"got {type(given).__name__} of shape {getattr(given, 'shape', None)}."
        )
    xp = namespace(given)
    rows = xp.stack([1 - given, given], axis=-1) if given.ndim == 1 else given
    _refuse_others(to_numpy(xp.any(~(rows >= 0), axis=-1) | ~(xp.abs(xp.sum(rows, axis=-1) - 1) <= _TOLERANCE)))
    n_classes = int(rows.shape[-1])
    seen, names = counts_by_class(trained_on, columns_of(probabilities), n_classes, source="trained_on")
    wanted, _ = counts_by_class(real, names, n_classes, source="real")
    ratios = check_target_prior(wanted, n_classes) / check_counts(seen, n_classes)
    weighted = rows * like(ratios / ratios.max(), rows)
    corrected = weighted / xp.sum(weighted, axis=-1, keepdims=True)
    return corrected[:, 1] if given.ndim == 1 else corrected


def _refuse_others(wrong: Bools) -> None:
    if np.any(wrong):
        sample = int(np.argmax(wrong))
        error = BadValueError(
            f"row {sample} does not have probabilities (0 to 1, with sum 1): of logits, take the softmax; of one "
            "number per sample, give a vector."
        )
        error.sample = sample
        raise error
