"""The exemplars that are kept: which training images of each class, best first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from energyalign.core.arrays import Ints
from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.incremental.memory_plan import MemoryPlan


@dataclass(frozen=True, eq=False)
class Memory:
    """Indices of training images, one ordered list for each class seen so far.

    Attributes
    ----------
    exemplars : tuple of arrays
        To train on.
    held_out : tuple of arrays
        Never trained on, for the correctors that need such images; empty arrays if there are none.
    """

    exemplars: tuple[Ints, ...] = ()
    held_out: tuple[Ints, ...] = ()

    @property
    def counts(self) -> Ints:
        """Exemplars of each class."""
        return np.array([len(of_class) for of_class in self.exemplars], dtype=np.int64)

    @property
    def indices(self) -> Ints:
        """All exemplars, class by class."""
        return np.concatenate([np.zeros(0, dtype=np.int64), *self.exemplars])

    @property
    def held_out_indices(self) -> Ints:
        """All that are held out, class by class."""
        return np.concatenate([np.zeros(0, dtype=np.int64), *self.held_out])

    def after(self, new: Memory, plan: MemoryPlan, part_held_out: float) -> Memory:
        """What is kept when these new classes have become old: the first of each list, as far as the quotas go."""
        exemplars, held_out = self.exemplars + new.exemplars, self.held_out + new.held_out
        n_held = n_held_out(plan, len(exemplars), part_held_out)
        available = np.array([len(of_class) for of_class in exemplars], dtype=np.int64)
        quotas = plan.quotas(available + n_held) - n_held
        return Memory(
            tuple(of_class[:quota] for of_class, quota in zip(exemplars, quotas, strict=True)),
            tuple(of_class[:n_held] for of_class in held_out),
        )

    def to_json(self) -> dict[str, Any]:
        """Lists of numbers."""
        return {
            "exemplars": [of_class.tolist() for of_class in self.exemplars],
            "held_out": [of_class.tolist() for of_class in self.held_out],
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """What `to_json` gave."""
        lists = (value["exemplars"], value["held_out"])
        exemplars, held_out = (tuple(np.array(one, dtype=np.int64) for one in of_kind) for of_kind in lists)
        return cls(exemplars, held_out)


def n_held_out(plan: MemoryPlan, n_old: int, part: float) -> int:
    """How many of the exemplars of each old class are never trained on: this part of them, at least one.

    Raises
    ------
    EnergyAlignError
        If none would be left to train on.
    """
    if part == 0:
        return 0
    if not plan.has_number:
        raise EnergyAlignError(
            f"some exemplars are to be held out from training, and the memory {plan} has no number of them: give one, "
            "for example --memory herding."
        )
    each = plan.total // n_old
    if each < 2:
        raise EnergyAlignError(
            f"the memory {plan} has fewer than two exemplars for each of {n_old} old classes, but one of them is to be "
            f"held out: give at least {plan.selection}:{2 * n_old}."
        )
    return max(1, int(part * each))
