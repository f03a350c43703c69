"""What fixes a long-tailed training run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from energyalign.core.errors import EnergyAlignError
from energyalign.longtail.learners import LEARNERS, CrossEntropy, Learner
from energyalign.longtail.presets import Preset
from energyalign.nets.normalised import DEFAULT_SCALE
from energyalign.train.describe import described, restored
from energyalign.train.recipe import SETTINGS, Recipe


@dataclass(frozen=True)
class LongTailConfig:
    """One training: data, network, recipe and seed. Post-hoc rows share it.

    Attributes
    ----------
    profile : str or mapping
        How the counts fall from class to class, ``natural`` to take the data as they come, or the counts themselves,
        by the name of the class.
    split_seed : int
        Of the long-tail cut. Seed 0 is the subset that LDAM, BBN and those after them use, so it stays 0 while `seed`
        (initialisation, order, augmentation, evidence) varies.
    """

    name: str
    learner: Learner
    dataset: str
    profile: str | Mapping[str, int]
    imbalance: float | None
    split_seed: int
    backbone: str
    head: str
    scale: float
    learned_scale: bool
    recipe: Recipe
    seed: int
    precision: str = "32-true"
    compile: bool = False

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise EnergyAlignError(f"the seed is {self.seed}; it must be 0 or more.")
        if self.imbalance is not None and not (math.isfinite(self.imbalance) and self.imbalance >= 1):
            raise EnergyAlignError(f"the imbalance is {self.imbalance:g}; largest over smallest class is at least 1.")
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise EnergyAlignError(f"the scale is {self.scale}; it must be a positive number.")
        if self.compile:
            from energyalign.train.compiling import refuse_random_paths  # torch, which a config can do without

            refuse_random_paths(self.backbone)

    @classmethod
    def from_preset(
        cls, preset: Preset, learner: Learner | None = None, *, seed: int,
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
            learned_scale=learned_scale and learner.scale is None, recipe=learner.recipe(preset.recipe), seed=seed,
            precision=precision, compile=compile,
        )  # fmt: skip

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> LongTailConfig:
        """What `to_json` wrote."""
        learners = {type(learner) for learner in LEARNERS.values()}
        config = restored(value, [cls, *SETTINGS, *learners])
        if not isinstance(config, cls):
            raise EnergyAlignError("these are not the settings of a long-tailed run.")
        return config

    def to_json(self) -> dict[str, Any]:
        """For config.json: a run directory belongs to one of these."""
        result: dict[str, Any] = described(self)
        if not self.compile:
            del result["compile"]  # as in runs from before there was a choice, which are still good
        return result
