"""The candidates of `auto` and its choice, stored with the shifts."""

from __future__ import annotations

from dataclasses import dataclass

UNDER_TARGET = "accuracy under the target prior"
"""Name of balanced accuracy if the target prior is not uniform."""
UNIFORM = 1e-12
"""Maximum difference between the logarithms of a target prior that counts as uniform."""


@dataclass(frozen=True)
class Candidate:
    """One estimator with one sharing, and its score on the evidence.

    Attributes
    ----------
    strength : float
        Factor of the estimator's shifts: 0 is the raw model, 1 fully aligned.
    score, score_error : float or None
        The cross-fitted score (fitted on some samples, scored on others) and its standard error.
    largest_error : float or None
        Largest standard error of a shift.
    problem : str or None
        Why the candidate was rejected.
    """

    estimator: str
    sharing: str
    strength: float = 1.0
    score: float | None = None
    score_error: float | None = None
    largest_error: float | None = None
    problem: str | None = None


@dataclass(frozen=True)
class Selection:
    """The candidates, the index of the chosen one, and the reason.

    Attributes
    ----------
    gain, gain_error : float or None
        Cross-fitted score of the chosen candidate minus the score of the raw model, and the standard error of this
        difference; None if nothing was scored.
    score_name : str
        Name of the score in text.
    """

    candidates: tuple[Candidate, ...]
    chosen: int
    reason: str
    gain: float | None = None
    gain_error: float | None = None
    score_name: str = "balanced_accuracy"

    @property
    def raw_and_chosen(self) -> tuple[float, float] | None:
        """Cross-fitted scores of the raw model and of the chosen candidate; None if nothing was scored."""
        chosen = self.candidates[self.chosen].score
        return None if chosen is None or self.gain is None else (chosen - self.gain, chosen)
