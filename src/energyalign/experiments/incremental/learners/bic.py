"""The training of BiC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from energyalign.experiments.incremental.learners.distill import Distill

if TYPE_CHECKING:
    from energyalign.experiments.incremental.step import Step


@dataclass(frozen=True)
class BiC(Distill):
    """``(1 - lambda) CE + lambda KD`` with ``lambda = C_old / (C_old + C_new)``, whatever the cell says.

    Stage 1 of the original, with its linear head. Stage 2 is the corrector of the same name, which also holds images
    out from this training.

    References
    ----------
    Wu et al. 2019, Large Scale Incremental Learning.
    """

    name: ClassVar[str] = "bic"
    head: ClassVar[str | None] = "linear"

    def weight(self, step: Step) -> float:
        """Lambda: the part of the classes that are old."""
        return step.n_old / step.n_seen
