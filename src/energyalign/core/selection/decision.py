"""Where between the raw and the aligned model an objective is best, then class by class as far as that pays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from energyalign.core._engine.thinning import thin_and_repeat
from energyalign.core.arrays import Floats, Ints, to_numpy, working_precision
from energyalign.core.errors import EnergyAlignError
from energyalign.core.evidence import Evidence
from energyalign.core.objectives import Constraints, Objective
from energyalign.core.selection.scoring import N_FOLDS, assign_folds

MAX_NUMBERS = 4_000_000  # logits that objectives are scored on
STRENGTHS = np.linspace(0.0, 1.5, 16)  # on the way from raw to aligned
TO_ALIGNED = np.linspace(-0.2, 1.2, 15)  # on the way from the frequencies to aligned
N_DRAWS = 50  # of weights, to see how much a score owes to chance
_MAX_OFFSETS = 24  # of a class in the search class by class
_MIN_OFFSETS = 4
_MAX_ROUNDS = 2
_BROKEN = 1e3  # what a constraint missed by 1 costs, in units of the score

Fit = Callable[[Evidence], tuple[Floats, float]]  # shifts and temperature


class Way(NamedTuple):
    """Shifts on the way from a start to the aligned model: one row for each position."""

    name: str
    positions: Floats
    shifts: Callable[[Floats, float, Floats], Floats]  # of (aligned shifts, temperature, positions)


class Decision(NamedTuple):
    """The shifts, where they are on the way, and cross-fitted scores of raw, fully aligned and these."""

    shifts: Floats
    way: str
    strength: float
    by_class: bool
    raw: float
    aligned: float
    score: float
    gain_error: float
    reached: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Samples:
    """What is scored: logits, labels and weights, each sample with the fold that its shifts were not fitted on."""

    logits: Floats
    labels: Ints
    weights: Floats
    folds: Ints
    fitted: list[tuple[Floats, float]]
    log_prior: Floats
    objective: Objective
    constraints: Constraints

    @property
    def n_classes(self) -> int:
        return int(self.logits.shape[1])

    def predict(self, shifts_of: Callable[[Floats, float], Floats]) -> Ints:
        """Predictions with each row of shifts, made from what was fitted on the other folds: (n_rows, n_samples)."""
        rows = [np.atleast_2d(shifts_of(*fitted)) for fitted in self.fitted]
        predicted = np.empty((len(rows[0]), len(self.labels)), dtype=np.intp)
        for fold, shifts in enumerate(rows):
            own = self.folds == fold
            for row, shift in enumerate(shifts):
                predicted[row, own] = np.argmax(self.logits[own] + shift, axis=1)
        return predicted

    def posteriors(self) -> Floats:
        """Cross-fitted posteriors under the frequencies that the score is about."""
        result = np.empty_like(self.logits)
        for fold, (shifts, temperature) in enumerate(self.fitted):
            own = self.folds == fold
            scores = temperature * (self.logits[own] + shifts) + self.log_prior
            scores -= scores.max(axis=1, keepdims=True)
            np.exp(scores, out=scores)
            result[own] = scores / scores.sum(axis=1, keepdims=True)
        return result

    def score(self, predicted: Ints, weights: Floats | None = None) -> float:
        """The objective, with all samples or with other weights of them."""
        return self.objective.score(
            self.labels, predicted, self.weights if weights is None else weights, self.n_classes
        )

    def draws(self, predicted: Ints) -> Floats:
        """Scores of each row of predictions under weights drawn anew (Bayesian bootstrap): (N_DRAWS, n_rows)."""
        rng = np.random.default_rng(0)
        result = np.empty((N_DRAWS, len(predicted)))
        for draw in range(N_DRAWS):
            weights = self.weights * rng.standard_exponential(len(self.weights))
            result[draw] = [self.score(row, weights) for row in predicted]
        return result

    def expected(self, predicted: Ints, posteriors: Floats) -> Floats:
        """Scores of each row of predictions if the labels were drawn from the posteriors."""
        n_samples, n_classes = posteriors.shape
        labels = np.tile(np.arange(n_classes), n_samples)
        weights = (self.weights[:, None] * posteriors).ravel()
        kept = weights > 0
        return np.array(
            [
                self.objective.score(labels[kept], np.repeat(row, n_classes)[kept], weights[kept], n_classes)
                for row in predicted
            ]
        )


def collect(
    evidence: Evidence, fit: Fit, frequencies: Floats | None, objective: Objective, constraints: Constraints
) -> Samples:
    """Fit on all folds but one, in turn, and keep what the scores need.

    The score is about `frequencies` of the classes, or those of the evidence.
    """
    part = thin_and_repeat(evidence, max(1, MAX_NUMBERS // evidence.n_classes), min_per_class=N_FOLDS)
    assert part.labels is not None
    folds = assign_folds(part, part.labels)
    fitted = [fit(part.subset(folds != fold)) for fold in range(int(folds.max()) + 1)]
    present = part.occurrences > 0
    scored = folds[present] >= 0
    blocks = [to_numpy(working_precision(block.logits, double=True)) for block in part.blocks()]
    labels, weights = part.labels[present][scored], part.occurrences[present][scored]
    seen = np.bincount(labels, weights, evidence.n_classes)
    if frequencies is not None:
        weights = weights * (frequencies / np.maximum(seen, 1e-300))[labels]
        seen = np.where(seen > 0, frequencies, 0.0)
    log_prior = np.log(np.maximum(seen, 0.5 * seen[seen > 0].min()) / seen.sum())
    return Samples(
        np.concatenate(blocks)[scored],
        labels,
        weights,
        folds[present][scored],
        fitted,
        log_prior,
        objective,
        constraints,
    )


def decide(samples: Samples, aligned: Floats, temperature: float, importance: Floats) -> Decision:
    """Choose a way and a position on it, refine it class by class, and keep the raw model if nothing is better.

    The position is halfway between where the model's own posteriors have the best expected score and where the labels
    have it, averaged over draws of their weights. The way from the frequencies of the classes is taken instead of that
    from the raw model only if it is better by more than its standard error; so are the offsets of single classes.
    """
    toward = samples.log_prior + np.log(importance)
    ways = [
        Way("raw", STRENGTHS, lambda shifts, _, positions: positions[:, None] * shifts),
        Way("frequencies", TO_ALIGNED, lambda shifts, s, positions: shifts + (1 - positions)[:, None] * toward / s),
    ]
    posteriors = samples.posteriors()
    best = _best_position(samples, ways[0], posteriors)
    if np.ptp(toward) > 0:
        other = _best_position(samples, ways[1], posteriors)
        gain = samples.draws(np.stack([other.predicted, best.predicted])) @ [1.0, -1.0]
        modelled = samples.expected(np.stack([other.predicted, best.predicted]), posteriors) @ [1.0, -1.0]
        if 0.5 * (float(np.mean(gain)) + float(modelled)) > 0.5 * float(np.std(gain)):
            best = other
    offsets, refined = _by_class(samples, best)
    raw, full = samples.predict(lambda shifts, _: np.stack([0 * shifts, shifts]))
    chosen = best.predicted if refined is None else refined
    gain = samples.draws(np.stack([chosen, raw])) @ [1.0, -1.0]
    score, raw_score, error = samples.score(chosen), samples.score(raw), float(np.std(gain))
    shifts = best.way.shifts(aligned, temperature, np.array([best.position]))[0]
    way, strength = best.way.name, best.position
    if refined is not None:
        shifts = shifts + offsets / temperature
    elif score - raw_score < -error:
        shifts, way, strength, score, error = 0 * shifts, "raw", 0.0, raw_score, 0.0
    return Decision(
        shifts, way, strength, refined is not None, raw_score, samples.score(full), score, error,
        _reached(samples, chosen),
    )  # fmt: skip


class _Best(NamedTuple):
    way: Way
    position: float
    predicted: Ints

    def shifts_of(self, shifts: Floats, temperature: float) -> Floats:
        return self.way.shifts(shifts, temperature, np.array([self.position]))[0]


def _best_position(samples: Samples, way: Way, posteriors: Floats) -> _Best:
    predicted = samples.predict(lambda shifts, s: way.shifts(shifts, s, way.positions))
    by_labels = np.mean([_mean_of_best(draw, way.positions) for draw in samples.draws(predicted)])
    by_model = _mean_of_best(samples.expected(predicted, posteriors), way.positions)
    position = 0.5 * (float(by_labels) + by_model)
    at = samples.predict(lambda shifts, s: way.shifts(shifts, s, np.array([position])))[0]
    return _Best(way, position, at)


def _mean_of_best(scores: Floats, positions: Floats) -> float:
    return float(positions[scores >= scores.max() - 1e-9].mean())


def _by_class(samples: Samples, best: _Best) -> tuple[Floats, Ints | None]:
    """Offsets of single classes in units of the temperature, and cross-fitted predictions with them; None if not taken.

    Constraints are always searched for; without them the offsets count half, and only if they pay on other folds.
    """
    must = bool(samples.constraints)
    n_offsets = min(_MAX_OFFSETS, samples.objective.max_trials // samples.n_classes)
    if not must and n_offsets < _MIN_OFFSETS:
        return np.zeros(samples.n_classes), None
    share = 1.0 if must else 0.5
    n_offsets = max(n_offsets, _MIN_OFFSETS)
    predicted, moved = best.predicted.copy(), np.empty_like(samples.logits)
    for fold, (shifts, temperature) in enumerate(samples.fitted):
        own = samples.folds == fold
        moved[own] = temperature * (samples.logits[own] + best.shifts_of(shifts, temperature))
    for fold in range(len(samples.fitted)):
        own = samples.folds == fold
        offsets = share * _search(samples, moved, ~own, n_offsets)
        predicted[own] = np.argmax(moved[own] + offsets, axis=1)
    if not must:
        gain = samples.draws(np.stack([predicted, best.predicted])) @ [1.0, -1.0]
        if samples.score(predicted) - samples.score(best.predicted) <= float(np.std(gain)):
            return np.zeros(samples.n_classes), None
    everywhere = np.ones(len(samples.labels), dtype=bool)
    offsets = share * _search(samples, moved, everywhere, n_offsets)
    if must:
        _refuse_infeasible(samples, np.argmax(moved + offsets, axis=1))
    return offsets, predicted


def _search(samples: Samples, scores: Floats, where: np.ndarray, n_offsets: int) -> Floats:
    """Offsets of the classes that are best for these samples: one class after another, a few times over."""
    scores, labels, weights = scores[where].copy(), samples.labels[where], samples.weights[where]
    offsets, n_classes = np.zeros(samples.n_classes), samples.n_classes

    def goal(predicted: Ints) -> float:
        missed = samples.constraints.violation(labels, predicted, weights, n_classes, margin=1.0)
        return samples.objective.score(labels, predicted, weights, n_classes) - _BROKEN * missed

    current = goal(np.argmax(scores, axis=1))
    for _ in range(_MAX_ROUNDS):
        before = current
        for k in range(n_classes):
            own = scores[:, k].copy()
            scores[:, k] = -np.inf
            rest = np.argmax(scores, axis=1)
            lead = own - scores[np.arange(len(rest)), rest]
            scores[:, k] = own
            trials = [(goal(np.where(lead + offset > 0, k, rest)), offset) for offset in _offsets(lead, n_offsets)]
            best, offset = max(trials, key=lambda trial: (trial[0], -abs(trial[1])))
            if best > current + 1e-12:
                current = best
                offsets[k] += offset
                scores[:, k] += offset
        if current <= before:
            break
    return offsets - offsets.mean()


def _offsets(lead: Floats, number: int) -> Floats:
    """Offsets at which predictions change, evenly among the samples and near those that a class nearly has."""
    finite = lead[np.isfinite(lead)]
    if len(finite) == 0:
        return np.zeros(1)
    quantiles = -np.quantile(finite, np.linspace(0.0, 1.0, number))
    near = np.linspace(-1.5, 1.5, number)
    return np.concatenate([quantiles, near])


def _refuse_infeasible(samples: Samples, predicted: Ints) -> None:
    constraints, arguments = samples.constraints, (samples.labels, predicted, samples.weights, samples.n_classes)
    if constraints.violation(*arguments) <= 1e-9:
        return
    had = ", ".join(
        f"{name} {value:.3f} of class {k} (minimum {minimum:g})"
        for name, k, minimum, value, _ in constraints.values(*arguments)
    )
    raise EnergyAlignError(f"no shifts meet the constraints on this evidence. The best that can be had: {had}.")


def _reached(samples: Samples, predicted: Ints) -> tuple[str, ...]:
    found = samples.constraints.values(samples.labels, predicted, samples.weights, samples.n_classes)
    return tuple(f"{name} of class {k}: {value:.3f} (minimum {minimum:g})" for name, k, minimum, value, _ in found)
