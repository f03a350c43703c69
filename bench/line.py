"""A line of the table: a comparison of energyalign with something else, and its goal."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

_DOUBT = 0.025  # on each side: 95 % confidence


@dataclass(frozen=True)
class Goal:
    """Goal of a ratio.

    If `faster`, the ratio is the other's seconds over ours and must be at least `bound`. Otherwise it is ours over the
    other's and must be at most `bound`.
    """

    bound: float
    faster: bool

    def __str__(self) -> str:
        return f"≥ {self.bound:g}×" if self.faster else f"≤ {self.bound:g}×"

    def holds(self, ratio: float) -> bool:
        """Return whether the ratio reaches the goal."""
        return ratio >= self.bound if self.faster else ratio <= self.bound


def at_least(bound: float) -> Goal:
    """Return the goal of being at least `bound` times as fast as the other."""
    return Goal(bound, faster=True)


def at_most(bound: float) -> Goal:
    """Return the goal of taking at most `bound` times as long as the other."""
    return Goal(bound, faster=False)


@dataclass(frozen=True)
class Line:
    """A comparison.

    Attributes
    ----------
    name, workload, against : str
        What was measured, on which workload, and against what. Together they identify a line.
    ratio, low, high : float
        The median of the ratios of neighbouring runs, and their quartiles.
    interval : pair of float
        95 % confidence interval of the median.
    runs : int
    ours, theirs : float
        Median amounts, in seconds by default; see `unit`.
    goal : Goal
    limit : str
        Heading in docs/performance.md that explains why the goal is out of reach; empty if it is not.
    floor : float
        Ratio that must be reached all the same: a worse ratio is a failure.
    curve : tuple of pairs
        For a line about growth: each size with its seconds or bytes.
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
        """Make a line from seconds that were measured in turns."""
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
        """Make a line for a deterministic number, which must be at most `bound`."""
        ratio = value / bound
        return cls(
            name, workload, against, ratio, ratio, ratio, (ratio, ratio), 1, value, bound, at_most(1.0), unit=unit
        )

    @classmethod
    def exponent(
        cls, name: str, workload: str, bound: float, *, curve: Sequence[tuple[float, float]], slopes: Sequence[float],
        unit: str, limit: str = "", floor: float = 0.0,
    ) -> Self:  # fmt: skip
        """Make a line for an exponent of growth, from the `slopes` of all rounds and the medians by size (`curve`)."""
        low, median, high = statistics.quantiles(slopes, n=4, method="inclusive") if len(slopes) > 1 else slopes * 3
        (_, smallest), *_, (_, largest) = curve
        return cls(
            name, workload, f"{'memory' if unit == 'bytes' else 'time'} = size ^ ratio", median, low, high,
            _interval(slopes), len(slopes), largest, smallest, at_most(bound), unit=unit, limit=limit, floor=floor,
            curve=tuple(curve),
        )  # fmt: skip

    @property
    def key(self) -> str:
        """Identifies the line in another table."""
        return " | ".join((self.name, self.workload, self.against))

    @property
    def passed(self) -> bool:
        """Whether the goal is reached."""
        return self.goal.holds(self.ratio)

    @property
    def verdict(self) -> str:
        """The result in a word, or with a link to the explanation of the limit.

        If the goal lies within the interval, the number of runs is too small to tell whether it is reached.
        """
        if self.passed:
            return "pass"
        reached = self.ratio >= self.floor if self.goal.faster else self.ratio <= self.floor
        if self.limit and reached:
            return f"limit: {self.limit}"
        return "within noise" if self.interval[0] <= self.goal.bound <= self.interval[1] else "FAIL"

    def to_json(self) -> dict[str, Any]:
        """Return all fields and derived values for JSON."""
        return {**asdict(self), "passed": self.passed, "verdict": self.verdict}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Self:
        """Convert the output of `to_json` back."""
        fields = {key: value for key, value in stored.items() if key not in ("passed", "verdict")}
        curve = tuple((size, taken) for size, taken in fields["curve"])
        return cls(**{**fields, "goal": Goal(**fields["goal"]), "interval": tuple(fields["interval"]), "curve": curve})


def _interval(values: Sequence[float]) -> tuple[float, float]:
    """Return a confidence interval for the median of the values' distribution, from order statistics."""
    ordered, n = sorted(values), len(values)
    left_out = 0
    while sum(math.comb(n, below) for below in range(left_out + 2)) <= _DOUBT * 2**n:
        left_out += 1
    return ordered[left_out], ordered[-1 - left_out]
