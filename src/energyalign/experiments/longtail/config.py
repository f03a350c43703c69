"""What fixes a long-tailed training run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.config import RunConfig
from energyalign.experiments.longtail.learners import LEARNERS, CrossEntropy
from energyalign.experiments.longtail.presets import LongTailPreset
from energyalign.experiments.nets.registry import DEFAULT_SCALE


@dataclass(frozen=True, kw_only=True)
class LongTailConfig(RunConfig):
    """A training and its long-tail cut.

    Attributes
    ----------
    profile : str or mapping
        How the counts fall from class to class, ``natural`` to take the data as they come, or the counts themselves,
        by the name of the class.
    split_seed : int
        Of the long-tail cut. Seed 0 is the subset that LDAM, BBN and those after them use, so it stays 0 while `seed`
        varies.
    """

    learner: CrossEntropy
    profile: str | Mapping[str, int]
    imbalance: float | None
    split_seed: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.imbalance is not None and not (math.isfinite(self.imbalance) and self.imbalance >= 1):
            raise EnergyAlignError(f"the imbalance, largest over smallest class, must be >= 1, got {self.imbalance:g}.")

    @classmethod
    def from_preset(
        cls, preset: LongTailPreset, learner: CrossEntropy | None = None, *, seed: int,
        profile: str | Mapping[str, int] = "exponential", split_seed: int = 0, scale: float = DEFAULT_SCALE,
        learned_scale: bool = False, precision: str = "32-true", compile: bool = False,
    ) -> LongTailConfig:  # fmt: skip
        """The cell with this seed, as the learner changes it; plain cross-entropy unless another one is given."""
        learner = learner or CrossEntropy()
        if preset.imbalance is None:
            if profile != "exponential" and isinstance(profile, str):
                raise EnergyAlignError(f"{preset.name} is taken as it comes: a profile needs an imbalance too.")
            profile = "natural" if isinstance(profile, str) else profile
        return cls(
            name=preset.name, learner=learner, dataset=preset.dataset, profile=profile, imbalance=preset.imbalance,
            split_seed=split_seed, backbone=learner.backbone(preset.backbone), head=learner.head or preset.head,
            scale=learner.scale or scale,
            learned_scale=learned_scale and learner.scale is None, recipe=learner.recipe(preset), seed=seed,
            precision=precision, compile=compile,
        )  # fmt: skip

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> LongTailConfig:
        """What `to_json` wrote."""
        return cls.restore(value, {type(learner) for learner in LEARNERS.values()})
