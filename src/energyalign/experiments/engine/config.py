"""What fixes a run."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.learner import Learner
from energyalign.experiments.engine.plan import EvidencePlan
from energyalign.experiments.nets.registry import BACKBONES, PATHS_ARE_NOT_COMPILED
from energyalign.experiments.train.recipe import SETTINGS, Recipe, describe, restore


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One training: data, network, recipe and seed. Rows of correctors behind it share it.

    Attributes
    ----------
    name : str
        Of the cell.
    seed : int
        Of initialisation, order, augmentation and evidence.
    """

    in_steps: ClassVar[bool] = False
    """Whether classes come in steps."""

    name: str
    learner: Learner
    dataset: str
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
            raise EnergyAlignError(f"the seed must be >= 0, got {self.seed}.")
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise EnergyAlignError(f"the scale must be a positive number, got {self.scale}.")
        if self.compile and BACKBONES.get(self.backbone, BACKBONES["resnet32"]).has_random_paths:
            raise EnergyAlignError(PATHS_ARE_NOT_COMPILED)

    @property
    def default_evidence(self) -> EvidencePlan:
        """The evidence that rows are measured with unless another is asked for."""
        return EvidencePlan()

    @classmethod
    def restore(cls, value: dict[str, Any], kinds: Iterable[type]) -> Self:
        """What `to_json` wrote; `kinds` are the dataclasses that may occur besides recipes."""
        config = restore(value, [cls, EvidencePlan, *SETTINGS, *kinds])
        if not isinstance(config, cls):
            raise EnergyAlignError(f"these are not the settings of a {cls.__name__}, but of a {value.get('kind')}.")
        return config

    def to_json(self) -> dict[str, Any]:
        """For config.json: a run directory belongs to one of these."""
        result: dict[str, Any] = describe(self)
        if not self.compile:
            del result["compile"]  # the default is left out
        return result
