"""Time several ways of doing the same thing in turns, so that a busy machine slows them all equally."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

ROUNDS = 7


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class Work:
    """Something to time, and what to prepare before each run without timing it."""

    run: Callable[[], object]
    prepare: Callable[[], object] = _nothing

    def seconds(self) -> float:
        """Prepare, run once, and return the seconds of the run."""
        self.prepare()
        start = time.perf_counter()
        self.run()
        return time.perf_counter() - start


def alternate(works: Mapping[str, Work | Callable[[], object]], rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Return the seconds of every round, by name, after one warm-up run of each.

    Every other round is in reverse order, so that no work always follows the same neighbour.
    """
    named = {name: work if isinstance(work, Work) else Work(work) for name, work in works.items()}
    seconds: dict[str, list[float]] = {name: [] for name in named}
    for work in named.values():
        work.seconds()
    for number in range(rounds):
        for name in list(named) if number % 2 == 0 else reversed(named):
            seconds[name].append(named[name].seconds())
    return seconds
