"""Convert probabilities of a model trained on re-sampled or weighted data to the real class frequencies."""

from __future__ import annotations

import numpy as np

from energyalign.core.arrays import Array, array_of, is_floating, like, namespace, to_numpy
from energyalign.core.checks import check_counts, check_target_prior
from energyalign.core.errors import BadValueError, EnergyAlignError
from energyalign.core.names import Counts, columns_of, counts_by_class

_TOLERANCE = 1e-3  # of sums of rounded probabilities


def real_probabilities(probabilities: Array, *, trained_on: Counts, real: Counts) -> Array:
    r"""Convert probabilities from the class frequencies of the training data to the real ones.

    By Bayes' rule, :math:`p_{real}(y \mid x) \propto p(y \mid x) \, \pi_{real}(y) / \pi_{trained}(y)`. The result is
    exact if the model is calibrated on its training data.

    Parameters
    ----------
    probabilities : array of shape (n_samples, n_classes) or (n_samples,), or pandas DataFrame
        Probabilities of each class, or of the second of two classes.
    trained_on : array of shape (n_classes,), dict or pandas Series
        Training samples per class after re-sampling, or the sum of their weights. Like `real`, it is matched by name if
        it and the columns of `probabilities` have names.
    real : array of shape (n_classes,), dict or pandas Series
        Real class frequencies, or counts before re-sampling. The scale does not matter.

    Returns
    -------
    array
        Like `probabilities`.

    References
    ----------
    Saerens et al., Adjusting the outputs of a classifier to new a priori probabilities, 2002.
    Dal Pozzolo et al., Calibrating probability with undersampling for unbalanced classification, 2015.

    Examples
    --------
    Trained on as many frauds as other payments; in reality there are 99 other payments per fraud:

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
    wrong = to_numpy(xp.any(~(rows >= 0), axis=-1) | ~(xp.abs(xp.sum(rows, axis=-1) - 1) <= _TOLERANCE))
    if np.any(wrong):
        error = BadValueError(
            f"row {np.argmax(wrong)} must have probabilities (0 to 1, with sum 1): give the softmax of logits, and one "
            "number per sample as a vector."
        )
        error.sample = int(np.argmax(wrong))
        raise error
    n_classes = int(rows.shape[-1])
    seen, names = counts_by_class(trained_on, columns_of(probabilities), n_classes, source="trained_on")
    wanted, _ = counts_by_class(real, names, n_classes, source="real")
    ratios = check_target_prior(wanted, n_classes) / check_counts(seen, n_classes)
    weighted = rows * like(ratios / ratios.max(), rows)
    corrected = weighted / xp.sum(weighted, axis=-1, keepdims=True)
    return corrected[:, 1] if given.ndim == 1 else corrected
