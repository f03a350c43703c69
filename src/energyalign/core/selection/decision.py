"""Where between the raw and the aligned model an objective is best, then class by class as far as that pays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from energyalign.core._engine.thinning import thin_and_repeat
from energyalign.core.arrays import Bools, Floats, Ints, to_numpy, working_precision
from energyalign.core.errors import EnergyAlignError
from energyalign.core.evidence import Evidence
from energyalign.core.objectives import Constraints, Objective
from energyalign.core.selection.scoring import N_FOLDS, assign_folds

MAX_NUMBERS = 10_000_000  # logits that objectives are scored on; more would say the same
STRENGTHS = np.linspace(0.0, 1.5, 16)  # on the way from raw to aligned
TO_ALIGNED = np.linspace(-0.2, 1.2, 15)  # on the way from the frequencies to aligned
N_DRAWS = 50  # of weights, to see how much a score owes to chance
_MAX_OFFSETS = 12  # of a class in a search class by class, at the samples and as many near by
_MIN_OFFSETS = 4
_FINE_OFFSETS = 200  # of a class that a constraint is about
_REACH = 1.5  # the largest offset near by, in calibrated logits
_BROKEN = 1e3  # what missing a constraint by 1 costs, in units of the score

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


class Decision(NamedTuple):
    """The shifts, how far from raw to aligned they are, and cross-fitted scores of raw, aligned and these."""

    shifts: Floats
    strength: float
    kept_raw: bool
    described: str
    raw: float
    aligned: float
    score: float
    gain: float
    gain_error: float


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

    def gain(self, new: Ints, old: Ints) -> tuple[float, float]:
        """The difference of two scores, and its standard error."""
        draws = self.draws(new, old)
        return self.score(new) - self.score(old), float(np.std(draws[:, 0] - draws[:, 1]))


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
    offsets, predicted = _search_by_class(samples, place)
    gain, error = samples.gain(predicted, raw)
    shifts = place.shifts(aligned, temperature) + offsets / temperature
    described = f"at strength {place.position:.2f} from {place.way.described} to aligned"
    described += ", then class by class" if offsets.any() else ""
    strength = place.position
    kept_raw = gain < -error and not samples.aim.constraints
    if kept_raw:
        described = f"of the raw model, which was kept: aligning costs {-gain:.4f} +- {error:.4f}"
        shifts, strength, predicted, gain, error = np.zeros_like(shifts), 0.0, raw, 0.0, 0.0
    before, aligned_score, after = (samples.score(each) for each in (raw, full, predicted))
    described += _reached(samples, predicted)
    return Decision(shifts, strength, kept_raw, described, before, aligned_score, after, gain, error)


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


def _search_by_class(samples: Samples, place: _Place) -> tuple[Floats, Ints]:
    """Offsets of single classes in calibrated logits, and cross-fitted predictions with them.

    Constraints move the classes that they are about. Without them all classes may move, by half of what is best for the
    samples, and only if that pays on other folds.
    """
    nothing = np.zeros(samples.n_classes), place.predicted
    must, share, classes = bool(samples.aim.constraints), 0.5, list(range(samples.n_classes))
    n_offsets = min(_MAX_OFFSETS, samples.aim.objective.max_trials // samples.n_classes)
    if must:
        share, classes, n_offsets = 1.0, samples.aim.constraints.classes, _FINE_OFFSETS
    elif n_offsets < _MIN_OFFSETS:
        return nothing
    moved = np.empty(samples.logits.shape)
    for fold, (shifts, temperature) in enumerate(samples.fitted):
        own = samples.folds == fold
        moved[own] = temperature * (samples.logits[own] + place.shifts(shifts, temperature))
    predicted = place.predicted.copy()
    for fold in range(len(samples.fitted)):
        own = samples.folds == fold
        predicted[own] = np.argmax(moved[own] + share * _best_offsets(samples, moved, ~own, classes, n_offsets), axis=1)
    if not must:
        gain, error = samples.gain(predicted, place.predicted)
        if gain <= error:
            return nothing
    offsets = share * _best_offsets(samples, moved, np.ones(len(moved), dtype=bool), classes, n_offsets)
    if must:
        _refuse_infeasible(samples, np.argmax(moved + offsets, axis=1))
    return offsets, predicted


def _best_offsets(samples: Samples, scores: Floats, where: Bools, classes: list[int], n_offsets: int) -> Floats:
    """Offsets of these classes that are best for these samples: one class after another, twice over."""
    scores, labels, weights = scores[where], samples.labels[where], samples.weights[where]
    observed = samples.observed[where]
    offsets, objective, constraints = np.zeros(samples.n_classes), samples.aim.objective, samples.aim.constraints

    def goal(predicted: Ints) -> float:
        score = objective.score(labels, predicted, weights, len(offsets))
        if not constraints:
            return score
        return score - _BROKEN * constraints.violation(labels, predicted, observed, len(offsets), margin=1.0)

    current = goal(np.argmax(scores, axis=1))
    for _ in range(2):
        before = current
        for k in classes:
            own = scores[:, k].copy()
            scores[:, k] = -np.inf
            rest = np.argmax(scores, axis=1)
            lead = own - scores[np.arange(len(rest)), rest]
            trials = [(goal(np.where(lead + by > 0, k, rest)), -abs(by), by) for by in _offsets_of(lead, n_offsets)]
            best, _, by = max(trials)
            better = best > current + 1e-12
            current = best if better else current
            offsets[k] += by if better else 0.0
            scores[:, k] = own + by if better else own
        if current <= before:
            break
    return np.asarray(offsets - offsets.mean())


def _offsets_of(lead: Floats, number: int) -> Floats:
    """Offsets that give a class more or fewer samples: all, none, even parts of them, and small ones."""
    finite = lead[np.isfinite(lead)]
    some = -np.quantile(finite, np.linspace(0.0, 1.0, number)) if len(finite) else np.zeros(1)
    return np.concatenate([some - 1e-9, some + 1e-9, np.linspace(-_REACH, _REACH, number)])


def _refuse_infeasible(samples: Samples, predicted: Ints) -> None:
    arguments = (samples.labels, predicted, samples.observed, samples.n_classes)
    if samples.aim.constraints.violation(*arguments) > 1e-9:
        raise EnergyAlignError(
            "no shifts meet the constraints on this evidence. The best that can be had" + _reached(samples, predicted)
        )


def _reached(samples: Samples, predicted: Ints) -> str:
    constraints = samples.aim.constraints
    found = constraints.values(samples.labels, predicted, samples.observed, samples.n_classes)
    had = ", ".join(
        f"{name} {value:.3f} of class {constraints.names[k]} (minimum {minimum:g})"
        for name, k, minimum, value, _ in found
    )
    return f": {had}." if had else "."
