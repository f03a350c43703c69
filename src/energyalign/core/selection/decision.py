"""Where between the raw and the aligned model an objective is best, then class by class as far as that pays."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from energyalign.core.arrays import Floats, Ints
from energyalign.core.selection.by_class import describe_reached, search_by_class
from energyalign.core.selection.samples import Samples, Score

STRENGTHS = np.linspace(0.0, 1.5, 16)  # on the way from raw to aligned
TO_ALIGNED = np.linspace(-0.2, 1.2, 15)  # on the way from the frequencies to aligned


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
