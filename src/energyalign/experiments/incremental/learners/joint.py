"""Joint training: what could be reached if nothing had to be forgotten."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from energyalign.experiments.incremental.learners.fine_tuning import FineTuning


@dataclass(frozen=True)
class Joint(FineTuning):
    """A new network in every step, trained on all images of all classes seen. It belongs to the memory ``all``."""

    name: ClassVar[str] = "joint"
    starts_anew: ClassVar[bool] = True
    constant_weight_decay: ClassVar[bool] = True
