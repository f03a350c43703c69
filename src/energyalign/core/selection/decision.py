"""Choose the shifts for an objective: a point between raw and aligned, then offsets of single classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from energyalign.core.arrays import Floats, Ints
from energyalign.core.selection.by_class import describe_reached, search_by_class
from energyalign.core.selection.samples import Samples, Score

STRENGTHS = np.linspace(0.0, 1.5, 16)  # 0 is raw, 1 is aligned
TO_ALIGNED = np.linspace(-0.2, 1.2, 15)  # 0 is aligned to the class frequencies, 1 is fully aligned


class Decision(NamedTuple):
    """The chosen shifts, their strength, and the scores of the raw, the aligned and the chosen model."""

    shifts: Floats
    strength: float
    kept_raw: bool
    described: str
    raw: Score
    aligned: Score
    chosen: Score
    gain: Score


class _Path(NamedTuple):
    """A line from a start to the aligned model; `shifts` takes (aligned shifts, temperature, positions)."""

    start: str
    positions: Floats
    shifts: Callable[[Floats, float, Floats], Floats]


class _Point(NamedTuple):
    """A position on a path and its cross-fitted predictions."""

    path: _Path
    position: float
    predicted: Ints

    def shifts(self, aligned: Floats, temperature: float) -> Floats:
        return np.asarray(self.path.shifts(aligned, temperature, np.array([self.position]))[0])


def decide(samples: Samples, aligned: Floats, temperature: float) -> Decision:
    """Choose a path and a position on it, add offsets of single classes, and fall back to raw if the result is worse.

    The position is the mean of two: the best under the model's own posteriors, and the best under the labels, averaged
    over random weights of the samples. The first assumes that the model is calibrated up to biases and a temperature;
    the second assumes nothing and is noisy. The path from the class frequencies replaces the path from raw only if its
    gain exceeds its standard error; the same holds for offsets of single classes.
    """
    point = _find_point(samples)
    raw, full = samples.predict(lambda shifts, _: np.stack([0 * shifts, shifts]))
    on_path = point.shifts(aligned, temperature)
    shifts, predicted = search_by_class(samples, point.shifts, point.predicted, aligned, temperature)
    gain = samples.gain(predicted, raw)
    moved = not np.array_equal(shifts, on_path)
    described = f"at position {point.position:.2f} from {point.path.start} (0) to aligned (1)"
    described += ", then offsets of single classes" if moved else ""
    strength = point.position if point.path.start == "raw" and not moved else 1.0
    kept_raw = gain.value < -gain.error and not samples.aim.constraints
    if kept_raw:
        described = f"by keeping the raw model: aligning costs {-gain.value:.4f} +- {gain.error:.4f}"
        shifts, strength, predicted, gain = np.zeros_like(shifts), 0.0, raw, Score(0.0, 0.0)
    each = raw, full, predicted
    before, fully, after = map(Score, map(samples.score, each), samples.draws(*each).std(axis=0).tolist())
    described += describe_reached(samples, predicted)
    return Decision(shifts, strength, kept_raw, described, before, fully, after, gain)


def _find_point(samples: Samples) -> _Point:
    toward = samples.log_prior + np.log(samples.aim.importance)
    posteriors = samples.posteriors()
    path = _Path("raw", STRENGTHS, lambda shifts, _, at: at[:, None] * shifts)
    best = _best_point(samples, path, posteriors)
    if np.ptp(toward) < 1e-9:  # balanced: the second path is a single point
        return best
    path = _Path("the class frequencies", TO_ALIGNED, lambda shifts, s, at: shifts + (1 - at)[:, None] * toward / s)
    other = _best_point(samples, path, posteriors)
    gain, error = samples.gain(other.predicted, best.predicted)
    modelled = [samples.aim.objective.expected(posteriors, p.predicted, samples.weights) for p in (other, best)]
    return other if gain + modelled[0] - modelled[1] > error else best


def _best_point(samples: Samples, path: _Path, posteriors: Floats) -> _Point:
    predicted = samples.predict(lambda shifts, s: path.shifts(shifts, s, path.positions))
    expected = [samples.aim.objective.expected(posteriors, row, samples.weights) for row in predicted]
    by_model = _mean_of_best(np.array(expected), path.positions)
    by_labels = float(np.mean([_mean_of_best(draw, path.positions) for draw in samples.draws(*predicted)]))
    point = _Point(path, 0.5 * (by_model + by_labels), predicted[0])
    return point._replace(predicted=samples.predict(point.shifts)[0])


def _mean_of_best(scores: Floats, positions: Floats) -> float:
    return float(positions[scores >= scores.max() - 1e-9].mean())
