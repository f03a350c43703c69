"""The curvature as far as the last steps have shown it: the limited-memory BFGS method."""

from __future__ import annotations

from collections import deque

import numpy as np

from energyalign.core.arrays import Floats

_MOST_STEPS = 20


class RememberedCurvature:
    """Steps and by how much they changed the slope, from which a product with the inverse curvature is made.

    Where no step has gone, the curvature is taken to be a multiple of the diagonal of the masses, which bounds it.
    """

    def __init__(self) -> None:
        self._steps: deque[tuple[Floats, Floats]] = deque(maxlen=_MOST_STEPS)

    def add(self, step: Floats, change: Floats) -> None:
        """Remember a step, unless rounding hides what it changed."""
        if float(step @ change) > 1e-14 * float(np.linalg.norm(step) * np.linalg.norm(change)):
            self._steps.append((step, change))

    def inverse_times(self, vector: Floats, mass: Floats) -> Floats:
        """The inverse curvature times a vector."""
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
