"""How evidence is drawn from the training data."""

from __future__ import annotations

from dataclasses import dataclass

from energyalign.core.errors import EnergyAlignError

AS_IN_TRAINING = "training"
POLICIES = (AS_IN_TRAINING, "none", "crop-flip", "one", "two", "half")
"""``training`` augments as the training did; the others are those of `energyalign.pytorch.augment`."""


@dataclass(frozen=True)
class EvidencePlan:
    """How many images of each class are drawn, and how they are augmented.

    Attributes
    ----------
    per_class : int, default 50
        Images of each class.
    policy : str, default "one"
        A name of `POLICIES`. The paper lists ten transformations but not how many an image undergoes.
    """

    per_class: int = 50
    policy: str = "one"

    def __post_init__(self) -> None:
        if self.per_class < 1:
            raise EnergyAlignError(f"the evidence size must be >= 1 image of each class, got {self.per_class}.")
        if self.policy not in POLICIES:
            raise EnergyAlignError(f"unknown augmentation policy {self.policy!r}: choose one of {', '.join(POLICIES)}.")

    def __str__(self) -> str:
        return f"{self.policy} x {self.per_class}"
