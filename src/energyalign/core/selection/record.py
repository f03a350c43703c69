"""What `auto` looked at and what it chose, kept with the result."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Candidate:
    """One estimator with one way of sharing, as measured on the evidence.

    Attributes
    ----------
    score : float or None
        Cross-fitted accuracy under the target prior: fitted on some samples, scored on others.
    behind : float or None
        How far the score is behind the best one, in standard errors of that difference.
    largest_error : float or None
        Largest standard error of a shift.
    slope : float or None
        Of the estimated energies on the logarithm of the training counts. Theory says 1 for a model
        trained with cross-entropy to the end.
    strain : float or None
        How far monotone sharing moves a class from its own measured energy, where chance does not explain it.
    problem : str or None
        Why the candidate is out.
    """

    estimator: str
    sharing: str
    score: float | None = None
    behind: float | None = None
    largest_error: float | None = None
    smallest_effective_samples: float | None = None
    slope: float | None = None
    strain: float | None = None
    problem: str | None = None


@dataclass(frozen=True)
class Selection:
    """The candidates, the index of the chosen one, and the reason in a sentence.

    `doubtful` where nothing could be scored fairly and no estimator's own diagnostics hold either.
    """

    candidates: tuple[Candidate, ...]
    chosen: int
    reason: str
    doubtful: bool = False
