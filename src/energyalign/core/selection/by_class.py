"""Offsets of single classes: to raise the score, or to meet minimum recalls and precisions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from energyalign.core.arrays import Floats, Ints
from energyalign.core.errors import EnergyAlignError
from energyalign.core.selection.samples import Samples

_MAX_OFFSETS = 12  # tried per class: this many midway between samples, and as many in [-_REACH, _REACH]
_MIN_OFFSETS = 4
_FINE_OFFSETS = 100  # tried per class with a constraint
_REACH = 1.5  # in calibrated logits
_MAX_SWEEPS = 2
_MAX_CONSTRAINED_SWEEPS = 6
_SHARE = 0.5  # part of the best offset that is applied if there are no constraints
# Penalty for missing a constraint, and for missing its margin; the unit is the score lost by a constant prediction.
_MISSED, _MISSED_MARGIN = 1e6, 10.0

ShiftsOf = Callable[[Floats, float], Floats]  # (aligned shifts, temperature) -> shifts


def search_by_class(
    samples: Samples, shifts_of: ShiftsOf, predicted: Ints, aligned: Floats, temperature: float
) -> tuple[Floats, Ints]:
    """Return the shifts with offsets of single classes, and predictions whose offsets are cross-fitted.

    With constraints, only the constrained classes move, and the constraints are checked on the returned shifts.
    Without constraints, every class may move by half of its best offset, and only if that raises the score on other
    folds.
    """
    shifts, constraints = shifts_of(aligned, temperature), samples.aim.constraints
    groups, share = [[k] for k in range(samples.n_classes)], _SHARE
    n_offsets = min(_MAX_OFFSETS, samples.aim.objective.max_trials // samples.n_classes)
    if constraints:
        # The last group moves all constrained classes together.
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
    """Search the best offsets by coordinate ascent over groups of classes."""
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
                continue  # a common offset changes nothing
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
    """Return offsets to try: quantiles of the leads, from all samples to none, and a grid within reach.

    Quantiles lie midway between two samples, so that rounding decides nothing and equal samples stay together.
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
            "found no shifts that meet the constraints on this evidence. The best have"
            + describe_reached(samples, predicted)
            + " Lower a minimum, or improve the model."
        )
    if np.all(predicted == predicted[0]):
        raise EnergyAlignError(
            f"only predicting class {constraints.names[predicted[0]]} for every sample meets the constraints on this "
            "evidence: lower the minima, or improve the model."
        )


def describe_reached(samples: Samples, predicted: Ints) -> str:
    """Describe the constrained recalls and precisions; return a full stop if there are no constraints."""
    constraints = samples.aim.constraints
    found = constraints.values(samples.labels, predicted, samples.observed, samples.n_classes)
    had = ", ".join(
        f"{name} {value:.3f} of class {constraints.names[k]} (minimum {minimum:g})"
        for name, k, minimum, value, _ in found
    )
    return f": {had}." if had else "."
