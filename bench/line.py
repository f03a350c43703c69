"""One line of the table: ours beside something else, with the goal it has to reach."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

_DOUBT = 0.025  # on each side: 95 % confidence


@dataclass(frozen=True)
class Goal:
    """What a ratio has to be.

    `faster` ratios are the other's seconds over ours and have to be at least `bound`; the others are ours over the
    other's and may be at most `bound`.
    """

    bound: float
    faster: bool

    def __str__(self) -> str:
        return f"≥ {self.bound:g}×" if self.faster else f"≤ {self.bound:g}×"

    def holds(self, ratio: float) -> bool:
        """Whether it is reached."""
        return ratio >= self.bound if self.faster else ratio <= self.bound


def at_least(bound: float) -> Goal:
    """So many times faster than the other."""
    return Goal(bound, faster=True)


def at_most(bound: float) -> Goal:
    """So many times the other's time, and no more."""
    return Goal(bound, faster=False)


@dataclass(frozen=True)
class Line:
    """A comparison.

    Attributes
    ----------
    name, workload, against : str
        What was measured, on what, and beside what. Name, workload and against together identify a line.
    ratio, low, high : float
        The median of the ratios of neighbouring runs, and their quartiles.
    interval : pair of float
        Where the median would be after any number of runs, with 95 % confidence.
    runs : int
    ours, theirs : float
        Median seconds (or bytes, or whatever `unit` says).
    goal : Goal
    limit : str
        Where the goal is out of reach, the heading in docs/performance.md that shows why.
    floor : float
        What is reached all the same: a worse ratio is a failure.
    curve : tuple of pairs
        Of a line about growth: each size, and how much it took.
    """

    name: str
    workload: str
    against: str
    ratio: float
    low: float
    high: float
    interval: tuple[float, float]
    runs: int
    ours: float
    theirs: float
    goal: Goal
    unit: str = "s"
    limit: str = ""
    floor: float = 0.0
    curve: tuple[tuple[float, float], ...] = ()

    @classmethod
    def of(
        cls,
        name: str,
        workload: str,
        against: str,
        goal: Goal,
        *,
        ours: Sequence[float],
        theirs: Sequence[float],
        limit: str = "",
        floor: float = 0.0,
    ) -> Self:
        """From seconds measured in turns."""
        pairs = zip(ours, theirs, strict=True)
        ratios = [other / own if goal.faster else own / other for own, other in pairs]
        low, median, high = statistics.quantiles(ratios, n=4, method="inclusive")
        own, other = statistics.median(ours), statistics.median(theirs)
        return cls(
            name, workload, against, median, low, high, _interval(ratios), len(ratios), own, other, goal, limit=limit,
            floor=floor,
        )  # fmt: skip

    @classmethod
    def single(cls, name: str, workload: str, against: str, value: float, bound: float, *, unit: str) -> Self:
        """A figure that is the same however often it is taken, and may be at most so much."""
        ratio = value / bound
        return cls(
            name, workload, against, ratio, ratio, ratio, (ratio, ratio), 1, value, bound, at_most(1.0), unit=unit
        )

    @classmethod
    def exponent(
        cls, name: str, workload: str, bound: float, *, curve: Sequence[tuple[float, float]], slopes: Sequence[float],
        unit: str, limit: str = "", floor: float = 0.0,
    ) -> Self:  # fmt: skip
        """By which power something grows: `slopes` of each round, and medians at each size, which the curve has."""
        low, median, high = statistics.quantiles(slopes, n=4, method="inclusive") if len(slopes) > 1 else slopes * 3
        (_, smallest), *_, (_, largest) = curve
        return cls(
            name, workload, f"{'memory' if unit == 'bytes' else 'time'} = size ^ ratio", median, low, high,
            _interval(slopes), len(slopes), largest, smallest, at_most(bound), unit=unit, limit=limit, floor=floor,
            curve=tuple(curve),
        )  # fmt: skip

    @property
    def key(self) -> str:
        """What identifies the line in another table."""
        return " | ".join((self.name, self.workload, self.against))

    @property
    def passed(self) -> bool:
        """Whether the goal is reached."""
        return self.goal.holds(self.ratio)

    @property
    def verdict(self) -> str:
        """In a word, or with the place that shows the limit.

        Where the goal lies within the interval, so many runs on this machine cannot tell whether it is reached.
        """
        if self.passed:
            return "pass"
        reached = self.ratio >= self.floor if self.goal.faster else self.ratio <= self.floor
        if self.limit and reached:
            return f"limit: {self.limit}"
        return "within noise" if self.interval[0] <= self.goal.bound <= self.interval[1] else "FAIL"

    def to_json(self) -> dict[str, Any]:
        """All of it, and what follows from it."""
        return {**asdict(self), "passed": self.passed, "verdict": self.verdict}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Self:
        """What `to_json` gave."""
        fields = {key: value for key, value in stored.items() if key not in ("passed", "verdict")}
        curve = tuple((size, taken) for size, taken in fields["curve"])
        return cls(**{**fields, "goal": Goal(**fields["goal"]), "interval": tuple(fields["interval"]), "curve": curve})


def _interval(values: Sequence[float]) -> tuple[float, float]:
    """Between which of the values the median of their distribution lies: each is as often above it as below."""
    ordered, n = sorted(values), len(values)
    left_out = 0
    while sum(math.comb(n, below) for below in range(left_out + 2)) <= _DOUBT * 2**n:
        left_out += 1
    return ordered[left_out], ordered[-1 - left_out]
