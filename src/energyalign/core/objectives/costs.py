"""Minimum expected cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from energyalign.core.arrays import Floats, Ints
from energyalign.core.errors import BadValueError, reason_of

_MAX_COST = 1e100  # sums and products of larger costs could overflow


@dataclass(frozen=True, eq=False)
class Costs:
    """Negative mean cost; ``matrix[k, j]`` is the cost of predicting class j for a sample of class k."""

    matrix: Floats
    name: ClassVar[str] = "costs"
    max_trials: ClassVar[int] = 1000

    @classmethod
    def make(cls, costs: npt.ArrayLike, n_classes: int) -> Costs:
        """Validate a cost matrix."""
        try:
            matrix = np.array(costs, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise BadValueError(
                f"costs must be {n_classes} rows of {n_classes} numbers: {reason_of(error)}."
            ) from error
        if matrix.shape != (n_classes, n_classes):
            raise BadValueError(
                f"costs must have shape ({n_classes}, {n_classes}), got {matrix.shape}: a row for each true class, a "
                "column for each prediction."
            )
        if not np.all(np.abs(matrix) <= _MAX_COST):
            wrong = matrix[~(np.abs(matrix) <= _MAX_COST)][0]
            raise BadValueError(f"costs must be finite numbers of at most {_MAX_COST:g}, got {wrong:g}.")
        if np.any(matrix < np.diag(matrix)[:, None]):
            row = int(np.argwhere(matrix < np.diag(matrix)[:, None])[0, 0])
            raise BadValueError(
                f"costs of class {row} make a wrong prediction cheaper than the right one: rows are true classes, "
                "columns are predictions. Is the matrix transposed?"
            )
        return cls(matrix)

    @property
    def of_classes(self) -> Floats:
        """Mean cost of a mistake for each true class, divided by the mean over classes."""
        n_classes = len(self.matrix)
        extra = (self.matrix.sum(axis=1) - n_classes * np.diag(self.matrix)) / max(n_classes - 1, 1)
        return np.asarray(np.maximum(extra, 1e-6 * extra.max()) / extra.mean() if extra.max() > 0 else extra + 1.0)

    def score(self, labels: Ints, predicted: Ints, weights: Floats, n_classes: int) -> float:  # noqa: ARG002
        """Return the negative mean cost."""
        return -float(weights @ self.matrix[labels, predicted] / weights.sum())

    def expected(self, posteriors: Floats, predicted: Ints, weights: Floats) -> float:
        """Return the negative expected cost."""
        return -float(weights @ np.sum(posteriors * self.matrix.T[predicted], axis=1) / weights.sum())
