"""Metrics of a run over several steps: average accuracy and forgetting.

Accuracies may be fractions or percent. The accuracy of a step is over the test images of all classes seen so far.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from energyalign.core.errors import EnergyAlignError


def average(accuracies: Sequence[float], *, with_first: bool) -> float:
    """Return the mean of the accuracies after each step, or NaN if there are none.

    The paper leaves out the first step, as EEIL and IL2M do, since it is not incremental; iCaRL includes it. The two
    differ by several points, so the caller must choose.

    References
    ----------
    Castro, Marín-Jiménez, Guil, Schmid, Alahari (2018), End-to-End Incremental Learning.
    Rebuffi, Kolesnikov, Sperl, Lampert (2017), iCaRL: Incremental Classifier and Representation Learning.

    Examples
    --------
    >>> average([90.0, 70.0, 60.0], with_first=False)
    65.0
    """
    counted = accuracies if with_first else accuracies[1:]
    return float(np.mean(counted)) if len(counted) else float("nan")


def forgetting(groups: Sequence[Sequence[float]]) -> float:
    """Return how far the accuracy on old classes has fallen from its maximum.

    With ``a[b][g]`` the accuracy, after step b, on the classes that came in step g, and B the last step::

        mean over g < B of ( max over g <= b < B of a[b][g]  -  a[B][g] )

    The maximum is over all earlier steps, because a group is not always best when it is new: a correction that favours
    old classes raises it later. Every group counts the same, whatever its number of classes. The result is negative if
    old classes gained in the last step, and NaN if there is only one step.

    Parameters
    ----------
    groups : sequence of sequences
        ``groups[b][g]``: one number after the first step, two after the second, and so on.

    References
    ----------
    Chaudhry, Dokania, Ajanthan, Torr (2018), Riemannian Walk for Incremental Learning: Understanding Forgetting and
    Intransigence.

    Examples
    --------
    >>> forgetting([[90.0], [60.0, 80.0], [50.0, 70.0, 85.0]])
    25.0
    """
    for step, of_step in enumerate(groups):
        if len(of_step) != step + 1:
            raise EnergyAlignError(
                f"the accuracies after step {step + 1} are of {len(of_step)} groups of classes: give one for each step "
                f"so far, {step + 1} in all."
            )
    if len(groups) < 2:
        return float("nan")
    *earlier, final = groups
    lost = [np.max([of_step[g] for of_step in earlier[g:]]) - final[g] for g in range(len(earlier))]
    return float(np.mean(lost))
