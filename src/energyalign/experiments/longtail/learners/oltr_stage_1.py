"""The first stage of OLTR."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from energyalign.experiments.longtail.learners.cross_entropy import CrossEntropy
from energyalign.experiments.train.recipe import Recipe, Steps

if TYPE_CHECKING:
    from energyalign.experiments.engine.config import Preset


@dataclass(frozen=True)
class OltrStage1(CrossEntropy):
    """Cross-entropy on a linear head for a third of the cell's epochs; the corrector ``oltr`` takes the other two.

    As in the original, which trains for 30 and 60 epochs, the rate falls to a tenth after each third of the stage.

    References
    ----------
    Liu et al. 2019, Large-Scale Long-Tailed Recognition in an Open World.
    """

    name: ClassVar[str] = "oltr-stage-1"
    head: ClassVar[str | None] = "linear"
    part_of_cell: ClassVar[float] = 1 / 3

    def recipe(self, preset: Preset) -> Recipe:
        epochs = max(1, round(preset.recipe.epochs * self.part_of_cell))
        return replace(preset.recipe, epochs=epochs, schedule=Steps((11, 21), 0.1, 30))
