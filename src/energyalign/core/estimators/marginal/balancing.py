"""The convex problem that `marginal` solves: find biases that give every cluster its share of the mean posterior."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from energyalign.core._engine.thinning import thin
from energyalign.core.arrays import Floats
from energyalign.core.clusters import Clusters
from energyalign.core.errors import EnergyAlignError
from energyalign.core.evidence import Evidence
from energyalign.core.mean_posterior import MeanPosterior, Moments

# Up to this many clusters every step computes the curvature matrix: it costs no more than the posteriors.
ALWAYS_DENSE = 16
# With more clusters than this the curvature matrix is never formed, only its products with vectors.
MAX_DENSE = 1024
# With more than ALWAYS_DENSE clusters try L-BFGS first: at most this many steps and rejections.
_MAX_LBFGS_STEPS = 40
_MAX_LBFGS_REJECTIONS = 1
_LBFGS_MEMORY = 20  # steps
_MAX_STEPS = 500
_MAX_STALLED = 20  # steps without a smaller gap
_MIN_DAMPING = 1e-10
_MAX_DAMPING = 1.0  # beyond it, take the majorised step, which cannot fail
_UNDERFLOW = 1e-200
_MAX_SPREAD = 20.0  # mean spread of the logits; wider ones are divided by a temperature first
_COOLING = 4.0  # factor between two temperatures
_STAGE_TOLERANCE = 1e-2  # relative to the smallest goal
_SPREAD_NUMBERS = 1 << 16  # logits to measure the spread on
_ROUGH_NUMBERS = 1 << 22  # logits in the part of large evidence that is solved first,
_ROUGH_SAMPLES = 16  # and minimum number of samples of each class
_ROUNDING = 1e-12  # accepted gap relative to the spread, if no step makes it smaller


@dataclass(frozen=True, eq=False)
class Balance:
    """Biases, with the moments of the model, the gap (mass minus goal) and the objective at these biases."""

    biases: Floats
    moments: Moments
    gap: Floats
    objective: float

    @property
    def largest_gap(self) -> float:
        return float(np.max(np.abs(self.gap)))


def balance(model: MeanPosterior, goal: Floats, tolerance: float) -> Balance:
    r"""Minimise :math:`F(b) = \overline{\log\sum_k e^{f_k+b_k}} - \sum_c g_c b_c`, whose gradient is mass - goal.

    Take damped Newton steps; with many clusters, L-BFGS steps first, as long as they succeed. If F does not fall,
    repeat the step with more damping. The last resort is the step :math:`b_c \leftarrow b_c + \log(g_c / \bar p_c)`:
    it minimises a majorant of F, so F cannot rise and the iteration cannot diverge. Masked clusters, whose goal is 0,
    keep bias 0.

    If the logits are so far apart that every posterior is nearly 0 or 1, F is almost piecewise linear and Newton's
    method fails. Such logits are first divided by a temperature, which is lowered to 1 in stages, each starting from
    the biases of the last. Large evidence is first solved on an even part of it.
    """
    evidence, clusters = model.evidence, model.clusters
    sample = thin(evidence.unlabelled(), max(1, _SPREAD_NUMBERS // evidence.n_classes))
    spread = MeanPosterior(sample, clusters).spread()
    rough = evidence
    if not model.is_small:
        rough = thin(evidence, max(1, _ROUGH_NUMBERS // evidence.n_classes), min_per_class=_ROUGH_SAMPLES)
    lbfgs = Lbfgs()
    try:
        biases = _find_start(rough, clusters, goal, spread, lbfgs, solve=rough is not evidence)
    except EnergyAlignError:
        if rough is evidence:
            raise
        # The part has no solution if it lacks the only samples in which some class is not masked.
        biases = _find_start(evidence, clusters, goal, spread, lbfgs, solve=False)
    return _Problem(model, goal, lbfgs).minimise(biases, tolerance, _ROUNDING * spread)


def _find_start(
    evidence: Evidence, clusters: Clusters, goal: Floats, spread: float, lbfgs: Lbfgs, *, solve: bool
) -> Floats:
    """Return biases to start from: lower the temperature to 1 in stages, and with `solve` also solve at 1."""
    biases = np.zeros(len(goal))
    tolerance = _STAGE_TOLERANCE * float(goal[goal > 0].min())
    temperature = max(1.0, spread / _MAX_SPREAD)
    while temperature > 1.0:
        stage = _Problem(MeanPosterior(evidence, clusters, temperature), goal)
        biases = stage.minimise(biases, tolerance).biases
        temperature = max(1.0, temperature / _COOLING)
    if solve:
        biases = _Problem(MeanPosterior(evidence, clusters), goal, lbfgs).minimise(biases, tolerance).biases
    return biases


class Lbfgs:
    """Approximation of the curvature from the last steps: the limited-memory BFGS method.

    The initial curvature is a multiple of the diagonal of the masses, which is an upper bound.
    """

    def __init__(self) -> None:
        self._steps: deque[tuple[Floats, Floats]] = deque(maxlen=_LBFGS_MEMORY)

    def add(self, step: Floats, change: Floats) -> None:
        """Store a step and the change of the gradient, unless that is only rounding."""
        if float(step @ change) > 1e-14 * float(np.linalg.norm(step) * np.linalg.norm(change)):
            self._steps.append((step, change))

    def inverse_times(self, vector: Floats, mass: Floats) -> Floats:
        """Multiply a vector by the inverse curvature."""
        inverse_mass = np.divide(1.0, mass, out=np.zeros(len(mass)), where=mass > 0)
        rest = vector.copy()
        shares = []
        for step, change in reversed(self._steps):
            share = float(step @ rest) / float(step @ change)
            rest -= share * change
            shares.append(share)
        scale = 1.0
        if self._steps:
            step, change = self._steps[-1]
            scale = float(step @ change) / float(change @ (inverse_mass * change))
        result = scale * inverse_mass * rest
        for (step, change), share in zip(self._steps, reversed(shares), strict=True):
            result += (share - float(change @ result) / float(step @ change)) * step
        return np.asarray(result)


class _Problem:
    """F and its minimisation at one temperature; F, logits and biases are divided by the temperature."""

    def __init__(self, model: MeanPosterior, goal: Floats, lbfgs: Lbfgs | None = None) -> None:
        self.model, self.goal = model, goal
        self.active = goal > 0
        self._lbfgs = lbfgs or Lbfgs()
        self._uses_lbfgs = len(goal) > ALWAYS_DENSE

    def minimise(self, biases: Floats, tolerance: float, rounding: float = 0.0) -> Balance:
        """Iterate until the gap is within the tolerance, or has stalled within rounding."""
        point = best = self._evaluate(biases)
        damping, stalled, rejected = 0.0, 0, 0
        for number in range(_MAX_STEPS):
            stalled = 0 if point.largest_gap < best.largest_gap else stalled + 1
            best = point if point.largest_gap < best.largest_gap else best
            if best.largest_gap <= (tolerance if stalled < _MAX_STALLED else max(tolerance, rounding)):
                return best
            if self._uses_lbfgs and (rejected > _MAX_LBFGS_REJECTIONS or number >= _MAX_LBFGS_STEPS):
                self._uses_lbfgs = False
                point, damping = self._evaluate(point.biases), 0.0
            newton = damping <= _MAX_DAMPING and bool(np.all(point.moments.mass[self.active] > _UNDERFLOW))
            step = self._newton_step(point, damping) if newton else self._majorised_step(point)
            trial = self._evaluate(point.biases + step)
            if newton and not self._descends(point, trial):
                rejected += 1
                damping = 10 * _MAX_DAMPING if self._uses_lbfgs else max(_MIN_DAMPING, 100 * damping)
                continue
            self._lbfgs.add(trial.biases - point.biases, trial.gap - point.gap)
            point = trial
            damping = damping / 10 if newton and damping > _MIN_DAMPING else 0.0
        raise EnergyAlignError(
            f"estimator 'marginal' did not converge in {_MAX_STEPS} steps: the mean posterior is still "
            f"{best.largest_gap:.1e} away from its goal. If many logits are -inf, some class cannot reach its share: "
            "share shifts over clusters of classes, or use estimator 'prior'."
        )

    def _evaluate(self, biases: Floats) -> Balance:
        biases = np.where(self.active, biases - biases[self.active].mean(), 0.0)
        moments = self.model.moments(biases, curvature=not self._uses_lbfgs and len(self.goal) <= MAX_DENSE)
        objective = moments.log_partition - float(self.goal @ biases) / self.model.temperature
        return Balance(biases, moments, moments.mass - self.goal, objective)

    def _descends(self, old: Balance, new: Balance) -> bool:
        """Return whether F fell enough for a Newton step or, if rounding hides that, whether the gap halved."""
        slope = float(old.gap @ (new.biases - old.biases)) / self.model.temperature
        if new.objective <= old.objective + 1e-4 * slope:
            return True
        rounding = 1e-13 * max(1.0, abs(old.objective))
        return new.largest_gap <= 0.5 * old.largest_gap and new.objective <= old.objective + rounding

    def _majorised_step(self, point: Balance) -> Floats:
        """Return the step log(goal / mass), which never increases F."""
        step = np.zeros(len(self.goal))
        mass = point.moments.mass[self.active]
        log_mass = np.log(mass) if np.all(mass > _UNDERFLOW) else self.model.log_mass(point.biases)[self.active]
        if np.any(np.isneginf(log_mass)):
            raise EnergyAlignError(
                "estimator 'marginal' cannot give every class its share: the logits of one class are -inf in all "
                "samples used. Share shifts over clusters of classes, or use estimator 'prior'."
            )
        step[self.active] = np.log(self.goal[self.active]) - log_mass
        return self.model.temperature * step

    def _newton_step(self, point: Balance, damping: float) -> Floats:
        """Return the Newton step, or a unit step downhill if the curvature is singular."""
        mass, curvature = point.moments.mass, point.moments.curvature
        step = np.zeros(len(self.goal))
        if self._uses_lbfgs:
            step = -self._lbfgs.inverse_times(point.gap, mass) / self.model.temperature
        elif curvature is None:
            step = self._conjugate_gradients(point, damping)
        else:
            inner = np.ix_(self.active, self.active)
            matrix = hold_constant((curvature + damping * np.diag(mass))[inner])
            try:
                step[self.active] = np.linalg.solve(matrix, -point.gap[self.active])
            except np.linalg.LinAlgError:
                step[self.active] = -np.sign(point.gap[self.active])
        return self.model.temperature * step

    def _conjugate_gradients(self, point: Balance, damping: float) -> Floats:
        """Return the Newton step for very many clusters, from products with the curvature only."""
        from scipy.sparse.linalg import LinearOperator, cg

        mass = point.moments.mass
        shape = (len(mass), len(mass))
        inverse_mass = np.divide(1.0, mass, out=np.zeros(len(mass)), where=mass > 0)

        def product(column: Floats) -> Floats:
            vector = column.ravel()
            return self.model.curvature_times(point.biases, mass, vector) + damping * mass * vector

        preconditioner = LinearOperator(shape, matvec=lambda column: inverse_mass * column.ravel())
        operator = LinearOperator(shape, matvec=product)
        return np.asarray(cg(operator, -point.gap, rtol=1e-2, maxiter=30, M=preconditioner)[0])


def hold_constant(curvature: Floats) -> Floats:
    """Add a multiple of 1 1ᵀ to the curvature, so that the constant, which it leaves free, stays 0."""
    return np.asarray(curvature + np.trace(curvature) / len(curvature) ** 2)
