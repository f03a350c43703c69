"""How many exemplars are kept of the classes seen so far, and how they are chosen."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

import numpy as np

from energyalign.core.arrays import Ints
from energyalign.core.errors import EnergyAlignError

SELECTIONS: dict[str, str] = {
    "none": "nothing is kept",
    "random": "drawn at random, as in the paper",
    "herding": "those whose mean feature stays nearest to that of their class",
    "all": "everything is kept: for joint training, the upper bound",
}


@dataclass(frozen=True)
class MemoryPlan:
    """A fixed number of exemplars that all old classes share.

    Attributes
    ----------
    selection : str
        A name of `SELECTIONS`.
    total : int
        Exemplars of all old classes together; 0 for ``none`` and ``all``, which need no number.
    """

    selection: str
    total: int = 0

    def __post_init__(self) -> None:
        if self.selection not in SELECTIONS:
            raise EnergyAlignError(f"unknown memory {self.selection!r}: choose one of {', '.join(SELECTIONS)}.")
        if self.has_number != (self.total > 0):
            need = "needs a number of exemplars of 1 or more" if self.has_number else "takes no number of exemplars"
            raise EnergyAlignError(f"the memory {self.selection} {need}: for example random:2000, or none.")

    @classmethod
    def parse(cls, text: str, default_total: int) -> Self:
        """``random:2000``, or ``random`` for the number that belongs to the data set."""
        name, colon, number = text.partition(":")
        if colon and not re.fullmatch(r"[0-9]+", number):
            raise EnergyAlignError(f"the memory {text!r} has no number of exemplars after the colon: say random:2000.")
        if colon:
            return cls(name, int(number))
        return cls(name, default_total if name in ("random", "herding") else 0)

    @property
    def has_number(self) -> bool:
        """Whether there is a limit to it."""
        return self.selection in ("random", "herding")

    def quotas(self, counts: Ints) -> Ints:
        """How many images are kept of each old class, of which there are so many training images.

        The total is divided evenly and rounded down; what is left over goes to the classes that came first, one each.
        Quotas fall as classes come, never rise: shrinking keeps the first of an ordered list. A class with fewer images
        than its quota keeps all of them.
        """
        if self.selection == "all":
            return counts.copy()
        n_old = len(counts)
        if n_old == 0:
            return np.zeros(0, dtype=np.int64)
        each, left_over = divmod(self.total, n_old)
        quotas: Ints = np.minimum(counts, each + (np.arange(n_old) < left_over))
        return quotas

    def check(self, n_classes: int) -> None:
        """Refuse a memory that leaves one of so many classes without an exemplar."""
        if self.has_number and self.total < n_classes:
            raise EnergyAlignError(
                f"a memory of {self.total} exemplars is too small for {n_classes} classes: give at least one for each, "
                f"--memory {self.selection}:{n_classes} or more, or --memory none."
            )

    def __str__(self) -> str:
        return f"{self.selection}:{self.total}" if self.has_number else self.selection
