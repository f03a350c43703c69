"""A row of a table: a learner with a corrector behind it."""

from __future__ import annotations

from typing import NamedTuple


class Method(NamedTuple):
    """A named row.

    Attributes
    ----------
    learner, corrector : str
        Names of the application's learners, and of `energyalign.experiments.correctors.CORRECTORS`.
    description, reference : str
    head : str or None
        The head that belongs to the row; None for that of the cell, cosine as in the paper.
    memory : str
        How exemplars are chosen, in class-incremental rows.
    """

    learner: str
    corrector: str
    description: str
    reference: str
    head: str | None = None
    memory: str = ""
