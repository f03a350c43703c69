"""A cell of the paper, or one of ours, as a setting that can be run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from energyalign.experiments.train.recipe import Recipe


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Data, network and recipe of one cell; each application adds its protocol.

    Attributes
    ----------
    gpu_hours : float
        A rough guess for one V100, from the size of network and data; nothing was timed.
    quick_epochs : int
    quick_backbone : str
        What ``--quick`` takes instead, sized for two cores of a CPU.
    head : str, default "cosine"
    subset : str, default "all"
        Which classes of the data set come.
    """

    name: str
    dataset: str
    backbone: str
    recipe: Recipe
    gpu_hours: float
    quick_epochs: int
    quick_backbone: str
    head: str = "cosine"
    subset: str = "all"

    @property
    def on_cifar(self) -> bool:
        """Whether the data are CIFAR, for which most originals published their settings."""
        return self.dataset in ("cifar10", "cifar100")

    def quick(self) -> Self:
        """The same cell on a small budget."""
        return replace(self, backbone=self.quick_backbone, recipe=self.recipe.lasting(self.quick_epochs))

    def with_head(self, head: str | None) -> Self:
        """With another head, or its own if there is none."""
        return replace(self, head=head or self.head)
