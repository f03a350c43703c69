"""What `auto` looked at and what it chose, kept with the result."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Candidate:
    """One estimator with one way of sharing, as measured on the evidence.

    Attributes
    ----------
    strength : float
        What the estimator's shifts are multiplied by: 0 is the raw model, 1 the estimate.
    score, score_error : float or None
        The cross-fitted score (fitted on some samples, scored on others) and its standard error.
    largest_error : float or None
        Largest standard error of a shift.
    problem : str or None
        Why the candidate is out.
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
    """The candidates, the index of the chosen one, and the reason in a sentence.

    Attributes
    ----------
    gain, gain_error : float or None
        Cross-fitted score of the chosen candidate less that of the raw model, and the standard error of this
        difference; None where the evidence cannot score.
    """

    candidates: tuple[Candidate, ...]
    chosen: int
    reason: str
    gain: float | None = None
    gain_error: float | None = None

    @property
    def raw_and_chosen(self) -> tuple[float, float] | None:
        """Cross-fitted scores of the raw model and of the chosen candidate; None where the evidence cannot score."""
        chosen = self.candidates[self.chosen].score
        return None if chosen is None or self.gain is None else (chosen - self.gain, chosen)
