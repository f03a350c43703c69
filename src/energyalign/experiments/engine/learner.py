"""What learners of both applications have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from energyalign.experiments.engine.preset import Preset
    from energyalign.experiments.train.recipe import Recipe


@dataclass(frozen=True)
class Learner:
    """A way to train: a frozen dataclass whose fields are its hyper-parameters, by default the original's.

    They are part of the run's config. Everything random comes from torch's global generator, which the training loop
    seeds for every batch, or from a seed derived for the purpose. A learner imports torch where it uses it, so that
    tables can be made without.
    """

    name: ClassVar[str] = ""
    head: ClassVar[str | None] = None
    """The head that belongs to it, whatever the cell says."""
    part_of_cell: ClassVar[float] = 1.0
    """How much of the cell's epochs it takes; a second stage has the rest."""

    def backbone(self, name: str) -> str:
        """The backbone it trains where the cell has this one."""
        return name

    def recipe(self, preset: Preset) -> Recipe:
        """The preset's recipe, changed where the original method has its own schedule or optimiser settings."""
        return preset.recipe
