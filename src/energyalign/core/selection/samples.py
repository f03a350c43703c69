"""The aim of a decision, and the cross-fitted samples that score it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from energyalign.core._engine.thinning import thin_and_repeat
from energyalign.core.arrays import Bools, Floats, Ints, to_numpy, working_precision
from energyalign.core.evidence import Evidence
from energyalign.core.objectives import Constraints, Objective, score_name
from energyalign.core.selection.record import UNDER_TARGET, UNIFORM
from energyalign.core.selection.scoring import N_FOLDS, assign_folds

MAX_NUMBERS = 1 << 22  # logits to score objectives on; larger evidence is thinned
N_DRAWS = 50  # draws of random weights, for standard errors

LeaveOut = Callable[[Evidence, Ints], list[tuple[Floats, float]]]  # -> (shifts, temperature) for each fold


@dataclass(frozen=True)
class Aim:
    """The objective, its constraints, and the class frequencies to score under.

    Attributes
    ----------
    target : array of shape (n_classes,)
        Target prior; uniform by default.
    frequencies : array of shape (n_classes,) or None
        Class frequencies of the score; None for the frequencies in the evidence.
    importance : array of shape (n_classes,)
        Relative cost of a mistake for each class.
    """

    objective: Objective
    constraints: Constraints
    target: Floats
    frequencies: Floats | None
    importance: Floats

    @property
    def name(self) -> str:
        return self.objective.name

    @property
    def score_name(self) -> str:
        """Name of the score in text."""
        return UNDER_TARGET if self.balanced and np.ptp(np.log(self.target)) > UNIFORM else score_name(self.name)

    @property
    def balanced(self) -> bool:
        """Whether the shifts include the target prior and samples are weighted by it."""
        return self.name == "balanced_accuracy"

    @property
    def is_default(self) -> bool:
        return self.balanced and not self.constraints


class Score(NamedTuple):
    """A cross-fitted score and its standard error."""

    value: float
    error: float


@dataclass(frozen=True, eq=False)
class Samples:
    """Logits and labels to score, with the fold of each sample and the shifts fitted without each fold.

    The score uses `weights`. Constraints use `observed`, the number of times a sample occurs.
    """

    logits: Floats
    labels: Ints
    weights: Floats
    observed: Floats
    folds: Ints
    fitted: list[tuple[Floats, float]]
    log_prior: Floats
    aim: Aim

    @property
    def n_classes(self) -> int:
        return int(self.logits.shape[1])

    def subset(self, where: Bools) -> Samples:
        """Return a part of the samples."""
        return replace(
            self,
            logits=self.logits[where],
            labels=self.labels[where],
            weights=self.weights[where],
            observed=self.observed[where],
            folds=self.folds[where],
        )

    def predict(self, shifts_of: Callable[[Floats, float], Floats]) -> Ints:
        """Return cross-fitted predictions for each row of shifts: (n_rows, n_samples)."""
        rows = [np.atleast_2d(shifts_of(*fitted)) for fitted in self.fitted]
        predicted = np.empty((len(rows[0]), len(self.labels)), dtype=np.int64)
        for fold, shifts in enumerate(rows):
            own = self.folds == fold
            logits = self.logits[own]
            for row, shift in enumerate(shifts.astype(logits.dtype)):
                predicted[row, own] = np.argmax(logits + shift, axis=1)
        return predicted

    def posteriors(self) -> Floats:
        """Return cross-fitted posteriors under the class frequencies of the score."""
        result = np.empty_like(self.logits)
        for fold, (shifts, temperature) in enumerate(self.fitted):
            own = self.folds == fold
            scores = temperature * (self.logits[own] + shifts) + self.log_prior
            scores = np.exp(scores - scores.max(axis=1, keepdims=True))
            result[own] = scores / scores.sum(axis=1, keepdims=True)
        return result

    def score(self, predicted: Ints) -> float:
        """Score predictions."""
        return self.aim.objective.score(self.labels, predicted, self.weights, self.n_classes)

    def draws(self, *predicted: Ints) -> Floats:
        """Score several predictions under random weights (Bayesian bootstrap): (N_DRAWS, n_predictions).

        A sample that was observed n times counts as n samples.
        """
        rng, objective = np.random.default_rng(0), self.aim.objective
        result = np.empty((N_DRAWS, len(predicted)))
        for draw in range(N_DRAWS):
            weights = self.weights / self.observed * rng.standard_gamma(self.observed)
            result[draw] = [objective.score(self.labels, row, weights, self.n_classes) for row in predicted]
        return result

    def gain(self, new: Ints, old: Ints) -> Score:
        """Return the score of `new` minus the score of `old`, with the standard error."""
        draws = self.draws(new, old)
        return Score(self.score(new) - self.score(old), float(np.std(draws[:, 0] - draws[:, 1])))


def collect(evidence: Evidence, leave_out: LeaveOut, aim: Aim, added: Floats) -> Samples:
    """Fit on all folds but one, in turn, and collect the samples; `added` is added to the logits."""
    part = thin_and_repeat(evidence, max(1, MAX_NUMBERS // evidence.n_classes), min_per_class=N_FOLDS)
    assert part.labels is not None
    folds = assign_folds(part, part.labels)
    fitted = leave_out(part, folds.astype(np.int64))
    present = part.occurrences > 0
    scored = folds[present] >= 0
    folds_of = folds[present][scored].astype(np.int64)
    logits = np.concatenate([to_numpy(working_precision(block.logits)) for block in part.blocks()])[scored]
    labels, observed = part.labels[present][scored], part.occurrences[present][scored]
    weights = observed
    seen = np.bincount(labels, weights, evidence.n_classes).astype(np.float64)
    if aim.frequencies is not None:
        weights = weights * (aim.frequencies / np.maximum(seen, 1e-300))[labels]
        seen = np.where(seen > 0, aim.frequencies, 0.0)
    log_prior = np.log(np.maximum(seen, 0.5 * seen[seen > 0].min()) / seen.sum()) - added
    return Samples(logits + added.astype(logits.dtype), labels, weights, observed, folds_of, fitted, log_prior, aim)
