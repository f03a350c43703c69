"""Offsets of single classes: as far as they pay on other samples, or as minima of recall and precision ask."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from energyalign.core.arrays import Floats, Ints
from energyalign.core.errors import EnergyAlignError
from energyalign.core.selection.samples import Samples

_MAX_OFFSETS = 12  # to try for a class, at the samples and as many near by
_MIN_OFFSETS = 4
_FINE_OFFSETS = 100  # to try for a class that a constraint is about
_REACH = 1.5  # the largest offset near by, in calibrated logits
_MAX_SWEEPS = 2
_MAX_CONSTRAINED_SWEEPS = 6
_SHARE = 0.5  # of the best offsets, where nothing has to be reached
# What missing a constraint by 1 costs, and missing its margin, in units of what a constant prediction loses.
_MISSED, _MISSED_MARGIN = 1e6, 10.0

ShiftsOf = Callable[[Floats, float], Floats]  # from aligned shifts and a temperature


def search_by_class(
    samples: Samples, shifts_of: ShiftsOf, predicted: Ints, aligned: Floats, temperature: float
) -> tuple[Floats, Ints]:
    """The shifts with offsets of single classes, and cross-fitted predictions with such offsets.

    Constraints move the classes that they are about, and are checked on the very shifts that are returned. Without
    them all classes may move, by half of what is best for the samples, and only if that pays on other folds.
    """
    shifts, constraints = shifts_of(aligned, temperature), samples.aim.constraints
    groups, share = [[k] for k in range(samples.n_classes)], _SHARE
    n_offsets = min(_MAX_OFFSETS, samples.aim.objective.max_trials // samples.n_classes)
    if constraints:
        # Moving all of these classes together is moving all others the other way.
        groups, share, n_offsets = [*([k] for k in constraints.classes), constraints.classes], 1.0, _FINE_OFFSETS
    elif n_offsets < _MIN_OFFSETS:
        return shifts, predicted

    def find_offsets(scores: Floats, part: Samples, temperature: float) -> Floats:
        return share * _best_offsets(part, scores, groups, n_offsets, _REACH / temperature)

    crossed = predicted.copy()
    for fold, fitted in enumerate(samples.fitted):
        own = samples.folds == fold
        scores = samples.logits + shifts_of(*fitted)
        crossed[own] = np.argmax(scores[own] + find_offsets(scores[~own], samples.subset(~own), fitted[1]), axis=1)
    if not constraints:
        gain, error = samples.gain(crossed, predicted)
        if gain <= error:
            return shifts, predicted
    shifts = shifts + find_offsets(samples.logits + shifts, samples, temperature)
    if constraints:
        _refuse_infeasible(samples, np.argmax(samples.logits + shifts, axis=1))
    return shifts, crossed


def _best_offsets(samples: Samples, scores: Floats, groups: list[list[int]], n_offsets: int, reach: float) -> Floats:
    """Offsets that are best for these samples: one group of classes after another, until nothing is gained."""
    offsets, constraints = np.zeros(samples.n_classes), samples.aim.constraints
    at_first = np.argmax(scores, axis=1)
    unit = max((abs(samples.score(at_first) - samples.score(0 * at_first + k)) for k in constraints.classes), default=0)

    def goal(predicted: Ints) -> float:
        score = samples.score(predicted)
        if not constraints:
            return score
        missed = constraints.missed(samples.labels, predicted, samples.observed, samples.n_classes)
        return score - unit * float(missed @ (_MISSED, _MISSED_MARGIN))

    scores, rows = scores.copy(), np.arange(len(scores))
    current = goal(at_first)
    for _ in range(_MAX_CONSTRAINED_SWEEPS if constraints else _MAX_SWEEPS):
        before = current
        for group in groups:
            if len(group) == samples.n_classes:
                continue  # nothing changes
            own = scores[:, group]
            scores[:, group] = -np.inf
            rest, first = np.argmax(scores, axis=1), np.argmax(own, axis=1)
            lead = own[rows, first] - scores[rows, rest]
            best_of_group = np.asarray(group)[first]
            trials = [
                (goal(np.where(lead + by > 0, best_of_group, rest)), -abs(by), by)
                for by in _offsets_of(lead, n_offsets, reach)
            ]
            best, _, by = max(trials)
            better = best > current + 1e-12
            current = best if better else current
            offsets[group] += by if better else 0.0
            scores[:, group] = own + by if better else own
        if current <= before:
            break
    return np.asarray(offsets - offsets.mean())


def _offsets_of(lead: Floats, number: int, reach: float) -> Floats:
    """Offsets that give a class more or fewer samples: all, none, even parts of them, and some within reach.

    Each is midway between two samples, so that rounding does not decide, and equal samples go the same way.
    """
    near = np.linspace(-reach, reach, number)
    distinct, where = np.unique(lead[np.isfinite(lead)], return_inverse=True)
    if len(distinct) == 0:
        return near
    edges = np.concatenate([[distinct[0] - 1], (distinct[1:] + distinct[:-1]) / 2, [distinct[-1] + 1]])
    parts = np.sort(where)[np.linspace(0, len(where) - 1, number).astype(np.int64)]
    return np.concatenate([-edges[np.unique([*parts, len(distinct)])], near])


def _refuse_infeasible(samples: Samples, predicted: Ints) -> None:
    constraints = samples.aim.constraints
    if constraints.missed(samples.labels, predicted, samples.observed, samples.n_classes)[0] > 1e-9:
        raise EnergyAlignError(
            "no shifts that meet the constraints on this evidence were found. The best found have"
            + describe_reached(samples, predicted)
        )
    if np.all(predicted == predicted[0]):
        raise EnergyAlignError(
            "the constraints on this evidence can be met only by predicting class "
            f"{constraints.names[predicted[0]]} for every sample: lower the minima, or improve the model."
        )


def describe_reached(samples: Samples, predicted: Ints) -> str:
    """What the predictions have of what was asked for; a full stop if nothing was."""
    constraints = samples.aim.constraints
    found = constraints.values(samples.labels, predicted, samples.observed, samples.n_classes)
    had = ", ".join(
        f"{name} {value:.3f} of class {constraints.names[k]} (minimum {minimum:g})"
        for name, k, minimum, value, _ in found
    )
    return f": {had}." if had else "."
