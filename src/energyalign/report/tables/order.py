"""The order of lines, and the kinds of evidence in their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from energyalign.experiments.correctors import CORRECTORS
from energyalign.experiments.engine.row import Row, natural
from energyalign.experiments.engine.stored import default_plan

_PLACES = {name: place for place, name in enumerate(CORRECTORS)}


def corrector_key(name: str) -> tuple[Any, ...]:
    """Return the sort key of a corrector: raw first, then as in the registry, then others by name and number.

    ``ea+ts`` follows ``ea``.
    """
    return _PLACES.get(name.partition("+")[0], len(_PLACES)), natural(name)


def line_key(row: Row) -> tuple[Any, ...]:
    """Return the sort key of a line of a training: its corrector, its memory, its evidence with the default first."""
    is_default = row.evidence in (None, default_plan(row))
    return corrector_key(row.corrector), natural(str(row.memory)), not is_default, row.evidence_key


def training_key(
    rows: Iterable[Row], training_of: Callable[[Row], object], learners: Iterable[str]
) -> Callable[[Row], tuple[int, int]]:
    """Return the sort key of rows by training: as in the registry of learners, then in the given order."""
    places = {name: place for place, name in enumerate(learners)}
    trainings = list(dict.fromkeys(map(training_of, rows)))
    return lambda row: (places.get(row.learner, len(places)), trainings.index(training_of(row)))


def evidence_suffix(rows: Sequence[Row]) -> Callable[[Row], str]:
    """Return a function from a row to the suffix for its evidence in the name of its line.

    The suffix is empty for the default of the row's data set, and if all rows have the same kind of evidence.
    """

    def suffix(row: Row) -> str:
        return "" if row.evidence in (None, default_plan(row)) else f", {row.evidence}"

    return suffix if len({suffix(row) for row in rows if row.evidence}) > 1 else lambda _: ""
