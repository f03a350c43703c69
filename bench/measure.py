"""Seconds of several ways to do one thing, taken in turns so that a busy machine slows them all."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

ROUNDS = 7


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class Work:
    """Something to be timed, and what has to be made ready before each time without being timed."""

    run: Callable[[], object]
    prepare: Callable[[], object] = _nothing

    def seconds(self) -> float:
        """One run."""
        self.prepare()
        start = time.perf_counter()
        self.run()
        return time.perf_counter() - start


def alternate(works: Mapping[str, Work | Callable[[], object]], rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Seconds of each by its name, one for each round, after one run of each that does not count.

    Every other round goes backwards: what follows a hungry neighbour does not always follow the same one.
    """
    named = {name: work if isinstance(work, Work) else Work(work) for name, work in works.items()}
    seconds: dict[str, list[float]] = {name: [] for name in named}
    for work in named.values():
        work.seconds()
    for number in range(rounds):
        for name in list(named) if number % 2 == 0 else reversed(named):
            seconds[name].append(named[name].seconds())
    return seconds
