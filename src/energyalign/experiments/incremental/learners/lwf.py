"""Learning without forgetting, for many classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from energyalign.experiments.incremental.learners.icarl import ICaRL


@dataclass(frozen=True)
class LwF(ICaRL):
    """LwF.MC: the training of iCaRL without exemplars; the head predicts. It belongs to the memory ``none``.

    This is the form of LwF that the iCaRL paper compares with, and in which it stands in the paper's tables: the
    original keeps a head for each task and is told which of them an image belongs to.

    References
    ----------
    Li, Hoiem 2017, Learning without Forgetting; Rebuffi et al. 2017, iCaRL: Incremental Classifier and Representation
    Learning.
    """

    name: ClassVar[str] = "lwf"
