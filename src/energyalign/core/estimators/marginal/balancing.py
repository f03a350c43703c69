"""The biases that give every cluster its share of the mean posterior: a convex problem, solved to rounding."""

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
# Up to this many the curvature can be a matrix; above, only its products with vectors are formed.
MAX_DENSE = 1024
# Between and above, limited-memory BFGS comes first: at most so many steps, of which so many may be rejected.
_MAX_REMEMBERING = 40
_MAX_REJECTED = 1
_MAX_REMEMBERED = 20  # steps from which it knows the curvature
_MAX_STEPS = 500
_MAX_STALLED = 20
_MIN_DAMPING = 1e-10
_UNDAMPABLE = 10.0  # so large that the next step is the one that cannot fail
_UNDERFLOW = 1e-200
_WIDE = 20.0  # a mean spread of logits above this asks for a temperature
_COOLING = 4.0
_STAGE_TOLERANCE = 1e-2
_SPREAD_NUMBERS = 1 << 16  # logits that show how far apart they are
_ROUGH_NUMBERS = 1 << 22  # in the part of the evidence that is solved first
_ROUGH_SAMPLES = 16  # of each class
_ROUNDING = 1e-12  # of a logit, relative: a gap that may remain when no step makes it smaller


@dataclass(frozen=True, eq=False)
class Balance:
    """Biases, the moments of the model there, how far the mass is from its goal, and the objective."""

    biases: Floats
    moments: Moments
    gap: Floats
    objective: float

    @property
    def largest_gap(self) -> float:
        return float(np.max(np.abs(self.gap)))


def balance(model: MeanPosterior, goal: Floats, tolerance: float) -> Balance:
    r"""Minimise :math:`F(b) = \overline{\log\sum_k e^{f_k+b_k}} - \sum_c g_c b_c`, whose slope is mass - goal.

    Damped Newton steps; for many clusters first steps that remember the curvature (limited-memory BFGS), as long as
    they succeed. A step after which F has not fallen is tried again with more damping. The last resort is the step
    :math:`b_c \leftarrow b_c + \log(g_c / \bar p_c)`: it minimises a majorant of F, so that F cannot rise, and the
    iteration cannot diverge. Clusters of goal 0 (masked ones) keep bias 0.

    Logits so far apart that every posterior is nearly 0 or 1 leave F almost piecewise linear, where Newton's
    method is lost. They are first divided by a temperature that is lowered to 1 in stages, each starting
    from the biases of the one before. And much evidence is first approached with an even part of it.
    """
    evidence, clusters = model.evidence, model.clusters
    few = thin(evidence.unlabelled(), max(1, _SPREAD_NUMBERS // evidence.n_classes))
    spread = MeanPosterior(few, clusters).spread()
    rough = evidence
    if not model.is_small:
        rough = thin(evidence, max(1, _ROUGH_NUMBERS // evidence.n_classes), min_per_class=_ROUGH_SAMPLES)
    remembered = RememberedCurvature()
    try:
        biases = _approach(rough, clusters, goal, spread, remembered, to_the_end=rough is not evidence)
    except EnergyAlignError:
        if rough is evidence:
            raise
        # There may be no solution in the part if only samples left out of it can be of some class.
        biases = _approach(evidence, clusters, goal, spread, remembered, to_the_end=False)
    return _Problem(model, goal, remembered).minimise(biases, tolerance, _ROUNDING * spread)


def _approach(
    evidence: Evidence,
    clusters: Clusters,
    goal: Floats,
    spread: float,
    remembered: RememberedCurvature,
    *,
    to_the_end: bool,
) -> Floats:
    """Find biases to start from: lower the temperature to 1 in stages; solve at 1 too if `to_the_end`."""
    biases = np.zeros(len(goal))
    tolerance = _STAGE_TOLERANCE * float(goal[goal > 0].min())
    temperature = max(1.0, spread / _WIDE)
    while temperature > 1.0:
        stage = _Problem(MeanPosterior(evidence, clusters, temperature), goal)
        biases = stage.minimise(biases, tolerance).biases
        temperature = max(1.0, temperature / _COOLING)
    if to_the_end:
        biases = _Problem(MeanPosterior(evidence, clusters), goal, remembered).minimise(biases, tolerance).biases
    return biases


class RememberedCurvature:
    """The curvature as far as the last steps have shown it: the limited-memory BFGS method.

    Where no step has gone, the curvature is taken to be a multiple of the diagonal of the masses, which bounds it.
    """

    def __init__(self) -> None:
        self._steps: deque[tuple[Floats, Floats]] = deque(maxlen=_MAX_REMEMBERED)

    def add(self, step: Floats, change: Floats) -> None:
        """Remember a step, unless rounding hides what it changed."""
        if float(step @ change) > 1e-14 * float(np.linalg.norm(step) * np.linalg.norm(change)):
            self._steps.append((step, change))

    def inverse_times(self, vector: Floats, mass: Floats) -> Floats:
        """Multiply a vector by the inverse curvature."""
        inverse_mass = np.divide(1.0, mass, out=np.zeros(len(mass)), where=mass > 0)
        left = vector.copy()
        taken = []
        for step, change in reversed(self._steps):
            share = float(step @ left) / float(step @ change)
            left -= share * change
            taken.append(share)
        scale = 1.0
        if self._steps:
            step, change = self._steps[-1]
            scale = float(step @ change) / float(change @ (inverse_mass * change))
        result = scale * inverse_mass * left
        for (step, change), share in zip(self._steps, reversed(taken), strict=True):
            result += (share - float(change @ result) / float(step @ change)) * step
        return np.asarray(result)


class _Problem:
    """F and its steps at one temperature; F is divided by the temperature as logits and biases are."""

    def __init__(self, model: MeanPosterior, goal: Floats, remembered: RememberedCurvature | None = None) -> None:
        self.model, self.goal = model, goal
        self.active = goal > 0
        self._remembered = remembered or RememberedCurvature()
        self._remembering = len(goal) > ALWAYS_DENSE

    def minimise(self, biases: Floats, tolerance: float, rounding: float = 0.0) -> Balance:
        """Iterate until the gap is within the tolerance, or within rounding and no longer falling."""
        point = best = self._at(biases)
        damping, stalled, rejected = 0.0, 0, 0
        for number in range(_MAX_STEPS):
            stalled = 0 if point.largest_gap < best.largest_gap else stalled + 1
            best = point if point.largest_gap < best.largest_gap else best
            if best.largest_gap <= (tolerance if stalled < _MAX_STALLED else max(tolerance, rounding)):
                return best
            if self._remembering and (rejected > _MAX_REJECTED or number >= _MAX_REMEMBERING):
                self._remembering = False
                point, damping = self._at(point.biases), 0.0
            newton = damping <= 1.0 and bool(np.all(point.moments.mass[self.active] > _UNDERFLOW))
            step = self._newton_step(point, damping) if newton else self._majorised_step(point)
            trial = self._at(point.biases + step)
            if newton and not self._descends(point, trial):
                rejected += 1
                damping = _UNDAMPABLE if self._remembering else max(_MIN_DAMPING, 100 * damping)
                continue
            self._remembered.add(trial.biases - point.biases, trial.gap - point.gap)
            point = trial
            damping = damping / 10 if newton and damping > _MIN_DAMPING else 0.0
        raise EnergyAlignError(
            f"estimator 'marginal' did not converge in {_MAX_STEPS} steps: the mean posterior is still "
            f"{best.largest_gap:.1e} away from its goal. If many logits are -inf, some class cannot reach its share; "
            "share shifts over clusters of classes, or use estimator='prior'."
        )

    def _at(self, biases: Floats) -> Balance:
        biases = np.where(self.active, biases - biases[self.active].mean(), 0.0)
        moments = self.model.moments(biases, curvature=not self._remembering and len(self.goal) <= MAX_DENSE)
        objective = moments.log_partition - float(self.goal @ biases) / self.model.temperature
        return Balance(biases, moments, moments.mass - self.goal, objective)

    def _descends(self, old: Balance, new: Balance) -> bool:
        """Whether F fell enough for a Newton step, or the gap halved where rounding hides that."""
        slope = float(old.gap @ (new.biases - old.biases)) / self.model.temperature
        if new.objective <= old.objective + 1e-4 * slope:
            return True
        rounding = 1e-13 * max(1.0, abs(old.objective))
        return new.largest_gap <= 0.5 * old.largest_gap and new.objective <= old.objective + rounding

    def _majorised_step(self, point: Balance) -> Floats:
        step = np.zeros(len(self.goal))
        mass = point.moments.mass[self.active]
        log_mass = np.log(mass) if np.all(mass > _UNDERFLOW) else self.model.log_mass(point.biases)[self.active]
        if np.any(np.isneginf(log_mass)):
            raise EnergyAlignError(
                "estimator 'marginal' cannot give every class its share: one of them is -inf in all samples that it is "
                "estimated from. Share shifts over clusters of classes, or use estimator='prior'."
            )
        step[self.active] = np.log(self.goal[self.active]) - log_mass
        return self.model.temperature * step

    def _newton_step(self, point: Balance, damping: float) -> Floats:
        """Newton's step, or a unit step downhill where the curvature is singular."""
        mass, curvature = point.moments.mass, point.moments.curvature
        step = np.zeros(len(self.goal))
        if self._remembering:
            step = -self._remembered.inverse_times(point.gap, mass) / self.model.temperature
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
        """Newton's step for very many clusters, from products with the curvature alone."""
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
    """The curvature plus a multiple of 1 1ᵀ: the constant that it leaves free is held at 0."""
    return np.asarray(curvature + np.trace(curvature) / len(curvature) ** 2)
