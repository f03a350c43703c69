"""Where between the raw and the aligned model an objective is best, then class by class as far as that pays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from energyalign.core._engine.thinning import thin_and_repeat
from energyalign.core.arrays import Bools, Floats, Ints, to_numpy, working_precision
from energyalign.core.evidence import Evidence
from energyalign.core.objectives import Constraints, Objective
from energyalign.core.selection.by_class import describe_reached, search_by_class
from energyalign.core.selection.scoring import N_FOLDS, assign_folds

MAX_NUMBERS = 10_000_000  # logits that objectives are scored on; more would say the same
STRENGTHS = np.linspace(0.0, 1.5, 16)  # on the way from raw to aligned
TO_ALIGNED = np.linspace(-0.2, 1.2, 15)  # on the way from the frequencies to aligned
N_DRAWS = 50  # of weights, to see how much a score owes to chance

Fit = Callable[[Evidence], tuple[Floats, float]]  # to shifts and a temperature


@dataclass(frozen=True)
class Aim:
    """The objective, what must be reached besides, and the class frequencies that the score is about.

    Attributes
    ----------
    target : array of shape (n_classes,)
        The target prior, uniform if none was given.
    frequencies : array of shape (n_classes,) or None
        None for those of the evidence.
    importance : array of shape (n_classes,)
        What a mistake costs, for each class, relative to the others.
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
    def balanced(self) -> bool:
        """Whether the target prior belongs to the shifts, and the samples are weighted by it."""
        return self.name == "balanced_accuracy"

    @property
    def is_default(self) -> bool:
        return self.balanced and not self.constraints


class Score(NamedTuple):
    """A cross-fitted score and its standard error."""

    value: float
    error: float


class Decision(NamedTuple):
    """The shifts, what the estimator's were multiplied by, and the scores of raw, aligned and these."""

    shifts: Floats
    strength: float
    kept_raw: bool
    described: str
    raw: Score
    aligned: Score
    chosen: Score
    gain: Score


class _Way(NamedTuple):
    """Shifts on the way from a start to the aligned model, by (aligned shifts, temperature, positions)."""

    described: str
    positions: Floats
    shifts: Callable[[Floats, float, Floats], Floats]


class _Place(NamedTuple):
    """A position on a way, and the cross-fitted predictions there."""

    way: _Way
    position: float
    predicted: Ints

    def shifts(self, aligned: Floats, temperature: float) -> Floats:
        return np.asarray(self.way.shifts(aligned, temperature, np.array([self.position]))[0])


@dataclass(frozen=True, eq=False)
class Samples:
    """What is scored: logits and labels, each sample with the fold that its shifts were not fitted on.

    It has the weight that the score is about; how often it was observed is what constraints are about.
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
        """The same of some samples."""
        return replace(
            self,
            logits=self.logits[where],
            labels=self.labels[where],
            weights=self.weights[where],
            observed=self.observed[where],
            folds=self.folds[where],
        )

    def predict(self, shifts_of: Callable[[Floats, float], Floats]) -> Ints:
        """Predictions with each row of shifts, made from what was fitted on the other folds: (n_rows, n_samples)."""
        rows = [np.atleast_2d(shifts_of(*fitted)) for fitted in self.fitted]
        predicted = np.empty((len(rows[0]), len(self.labels)), dtype=np.int64)
        for fold, shifts in enumerate(rows):
            own = self.folds == fold
            logits = self.logits[own]
            for row, shift in enumerate(shifts.astype(logits.dtype)):
                predicted[row, own] = np.argmax(logits + shift, axis=1)
        return predicted

    def posteriors(self) -> Floats:
        """Cross-fitted posteriors under the frequencies that the score is about."""
        result = np.empty_like(self.logits)
        for fold, (shifts, temperature) in enumerate(self.fitted):
            own = self.folds == fold
            scores = temperature * (self.logits[own] + shifts) + self.log_prior
            scores = np.exp(scores - scores.max(axis=1, keepdims=True))
            result[own] = scores / scores.sum(axis=1, keepdims=True)
        return result

    def score(self, predicted: Ints) -> float:
        """The cross-fitted score."""
        return self.aim.objective.score(self.labels, predicted, self.weights, self.n_classes)

    def draws(self, *predicted: Ints) -> Floats:
        """Scores of several predictions under weights drawn anew (Bayesian bootstrap): (N_DRAWS, n_predictions).

        A sample that was observed several times weighs as much as that many.
        """
        rng, objective = np.random.default_rng(0), self.aim.objective
        result = np.empty((N_DRAWS, len(predicted)))
        for draw in range(N_DRAWS):
            weights = self.weights / self.observed * rng.standard_gamma(self.observed)
            result[draw] = [objective.score(self.labels, row, weights, self.n_classes) for row in predicted]
        return result

    def gain(self, new: Ints, old: Ints) -> Score:
        """The difference of two scores."""
        draws = self.draws(new, old)
        return Score(self.score(new) - self.score(old), float(np.std(draws[:, 0] - draws[:, 1])))


def collect(evidence: Evidence, fit: Fit, aim: Aim, added: Floats) -> Samples:
    """Fit on all folds but one, in turn, and keep what the scores need; `added` belongs to the raw logits."""
    part = thin_and_repeat(evidence, max(1, MAX_NUMBERS // evidence.n_classes), min_per_class=N_FOLDS)
    assert part.labels is not None
    folds = assign_folds(part, part.labels)
    fitted = [fit(part.subset(folds != fold)) for fold in range(int(folds.max()) + 1)]
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


def decide(samples: Samples, aligned: Floats, temperature: float) -> Decision:
    """Choose a way and a position on it, move single classes, and keep the raw model if all of it is worse.

    The position is halfway between where the model's own posteriors have the best expected score and where the labels
    have it, averaged over draws of their weights: the one assumes that the model is calibrated up to its biases and a
    temperature, the other assumes nothing and is noisy. The way from the class frequencies is taken instead of that
    from the raw model only if it is better by more than its standard error; so are offsets of single classes.
    """
    place = _find_place(samples)
    raw, full = samples.predict(lambda shifts, _: np.stack([0 * shifts, shifts]))
    on_the_way = place.shifts(aligned, temperature)
    shifts, predicted = search_by_class(samples, place.shifts, place.predicted, aligned, temperature)
    gain = samples.gain(predicted, raw)
    described = f"at strength {place.position:.2f} from {place.way.described} to aligned"
    described += "" if np.array_equal(shifts, on_the_way) else ", then class by class"
    strength = place.position if place.way.described == "raw" else 1.0
    kept_raw = gain.value < -gain.error and not samples.aim.constraints
    if kept_raw:
        described = f"of the raw model, which was kept: aligning costs {-gain.value:.4f} +- {gain.error:.4f}"
        shifts, strength, predicted, gain = np.zeros_like(shifts), 0.0, raw, Score(0.0, 0.0)
    each = raw, full, predicted
    before, fully, after = map(Score, map(samples.score, each), samples.draws(*each).std(axis=0).tolist())
    described += describe_reached(samples, predicted)
    return Decision(shifts, strength, kept_raw, described, before, fully, after, gain)


def _find_place(samples: Samples) -> _Place:
    toward = samples.log_prior + np.log(samples.aim.importance)
    posteriors = samples.posteriors()
    way = _Way("raw", STRENGTHS, lambda shifts, _, at: at[:, None] * shifts)
    best = _best_position(samples, way, posteriors)
    if np.ptp(toward) < 1e-9:  # balanced: both ways end where they begin
        return best
    way = _Way("the class frequencies", TO_ALIGNED, lambda shifts, s, at: shifts + (1 - at)[:, None] * toward / s)
    other = _best_position(samples, way, posteriors)
    gain, error = samples.gain(other.predicted, best.predicted)
    modelled = [samples.aim.objective.expected(posteriors, p.predicted, samples.weights) for p in (other, best)]
    return other if gain + modelled[0] - modelled[1] > error else best


def _best_position(samples: Samples, way: _Way, posteriors: Floats) -> _Place:
    predicted = samples.predict(lambda shifts, s: way.shifts(shifts, s, way.positions))
    expected = [samples.aim.objective.expected(posteriors, row, samples.weights) for row in predicted]
    by_model = _mean_of_best(np.array(expected), way.positions)
    by_labels = float(np.mean([_mean_of_best(draw, way.positions) for draw in samples.draws(*predicted)]))
    place = _Place(way, 0.5 * (by_model + by_labels), predicted[0])
    return place._replace(predicted=samples.predict(place.shifts)[0])


def _mean_of_best(scores: Floats, positions: Floats) -> float:
    return float(positions[scores >= scores.max() - 1e-9].mean())
