"""What fixes a long-tailed training run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from energyalign.longtail.presets import Preset
from energyalign.train.describe import described
from energyalign.train.recipe import Recipe


@dataclass(frozen=True)
class LongTailConfig:
    """One training: data, network, recipe and seed. Post-hoc rows share it.

    Attributes
    ----------
    profile : str
        How the counts fall from class to class, or ``natural`` to take the data as they come.
    split_seed : int
        Of the long-tail cut. Seed 0 is the subset that LDAM, BBN and those after them use, so it stays 0 while `seed`
        (initialisation, order, augmentation, evidence) varies.
    """

    name: str
    dataset: str
    profile: str
    imbalance: float | None
    split_seed: int
    backbone: str
    head: str
    scale: float
    learned_scale: bool
    recipe: Recipe
    seed: int

    @classmethod
    def from_preset(
        cls, preset: Preset, *, seed: int, profile: str = "exponential", split_seed: int = 0, scale: float = 16.0,
        learned_scale: bool = False,
    ) -> LongTailConfig:  # fmt: skip
        """The cell with this seed."""
        return cls(
            name=preset.name, dataset=preset.dataset, profile="natural" if preset.imbalance is None else profile,
            imbalance=preset.imbalance, split_seed=split_seed, backbone=preset.backbone, head=preset.head, scale=scale,
            learned_scale=learned_scale, recipe=preset.recipe, seed=seed,
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """For config.json: a run directory belongs to one of these."""
        result: dict[str, Any] = described(self)
        return result
