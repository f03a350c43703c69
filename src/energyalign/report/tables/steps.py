"""Steps as columns, and rows as the curves over them."""

from __future__ import annotations

from collections.abc import Sequence

from energyalign.experiment.rows import Row
from energyalign.incremental.table import Curve

MOST_BESIDE = 10
"""More steps than these stand below each other, as in the paper."""


def step_group(step: int, n_steps: int) -> str:
    """``steps 11 to 20`` for one of them; nothing if all steps are beside each other."""
    if n_steps <= MOST_BESIDE:
        return ""
    first = (step - 1) // MOST_BESIDE * MOST_BESIDE + 1
    return f"steps {first} to {min(first + MOST_BESIDE - 1, n_steps)}"


def curves_by_seed(rows: Sequence[Row]) -> list[Curve]:
    """The curve of each seed; rows are of one line of a table, and one that is given twice counts once."""
    found: dict[int, dict[int, Row]] = {}
    for row in rows:
        found.setdefault(row["seed"], {})[row["step"]] = row
    return [Curve([by_step[step] for step in sorted(by_step)]) for by_step in found.values()]
