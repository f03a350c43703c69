"""Every long-tailed cell of the paper as a setting that can be run, and one that runs in seconds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from energyalign.core.errors import EnergyAlignError
from energyalign.experiment.names import short_name
from energyalign.longtail.paper import PAPER, PaperNumbers
from energyalign.train.recipe import SGD, Recipe
from energyalign.train.schedule import Cosine, Steps, WarmUp


@dataclass(frozen=True)
class Preset:
    """Data, network and recipe of one cell.

    Attributes
    ----------
    imbalance : float or None
        Largest over smallest class of the long-tail cut; None for a set that is long-tailed as it comes.
    gpu_hours : float
        A rough guess for one V100, from the size of network and data; nothing was timed.
    quick_epochs : int
    quick_backbone : str
        What ``--quick`` takes instead, sized for two cores of a CPU.
    """

    name: str
    dataset: str
    imbalance: float | None
    backbone: str
    recipe: Recipe
    gpu_hours: float
    quick_epochs: int
    quick_backbone: str
    head: str = "cosine"

    @property
    def paper(self) -> dict[str, PaperNumbers]:
        """The paper's numbers of this cell, by row; empty for a cell of our own."""
        return PAPER.get(self.name, {})

    def quick(self) -> Self:
        """The same cell on a small budget."""
        return replace(self, backbone=self.quick_backbone, recipe=self.recipe.lasting(self.quick_epochs))


# "Decayed by 0.01 at the 120th and 160th epoch", with BBN's warm-up, which starts at a third.
_CIFAR = Recipe(200, 128, SGD(0.1), Steps((120, 160), 0.01, 200, WarmUp(5, 1 / 3)))
_IMAGENET = Recipe(90, 512, SGD(0.2), Cosine())
_INATURALIST = Recipe(90, 512, SGD(0.1), Cosine())
_DIGITS = Recipe(60, 32, SGD(0.05), Cosine())

_CELLS = (
    *(
        Preset(f"cifar{n}-lt-{imbalance}", f"cifar{n}", imbalance, "resnet32", _CIFAR, 0.7, 15, "resnet8")
        for n in (10, 100)
        for imbalance in (100, 50, 10)
    ),
    Preset("imagenet-lt-resnet50", "imagenet-lt", None, "resnet50", _IMAGENET, 16.0, 2, "resnet18"),
    Preset("imagenet-lt-resnext50", "imagenet-lt", None, "resnext50", _IMAGENET, 22.0, 2, "resnet18"),
    Preset("inaturalist-90", "inaturalist18", None, "resnet50", _INATURALIST, 60.0, 1, "resnet18"),
    Preset("inaturalist-200", "inaturalist18", None, "resnet50", _INATURALIST.lasting(200), 130.0, 1, "resnet18"),
    Preset("digits-lt-50", "digits", 50, "small-cnn", _DIGITS, 0.01, 60, "small-cnn"),
    Preset("fashion-lt-100", "fashion-mnist", 100, "resnet8", _CIFAR.lasting(30), 0.05, 8, "resnet8"),
)
# A user's own sets are smaller than ImageNet: smaller batches, so that an epoch has several, and the rate with them.
_OWN = Recipe(60, 64, SGD(0.025), Cosine())
_OWN_IMAGES = Preset("", "", None, "resnet18", _OWN, 0.0, 10, "resnet18")
PRESETS: dict[str, Preset] = {preset.name: preset for preset in _CELLS}


def preset_for(dataset: str, imbalance: float | None) -> Preset:
    """The cell of a dataset at an imbalance, or its nearest relative at that imbalance; by its own name too."""
    if dataset in PRESETS:
        if imbalance not in (None, PRESETS[dataset].imbalance):
            raise EnergyAlignError(f"{dataset} has an imbalance of its own: leave --imbalance out.")
        return PRESETS[dataset]
    if ":" in dataset:  # a user's own images
        return replace(_OWN_IMAGES, name=short_name(dataset), dataset=dataset, imbalance=imbalance)
    same = [preset for preset in _CELLS if preset.dataset == dataset]
    if not same:
        raise EnergyAlignError(
            f"there is no preset for {dataset!r}: choose one of {', '.join(sorted({p.dataset for p in _CELLS}))}, "
            f"folder:PATH, lists:PATH or parquet:PATH for your own images, or a preset by name: {', '.join(PRESETS)}."
        )
    exact = [preset for preset in same if imbalance is None or preset.imbalance == imbalance]
    if exact:
        return exact[0]
    if same[0].imbalance is None:
        raise EnergyAlignError(f"{dataset} is long-tailed as it comes: leave --imbalance out.")
    return replace(same[0], name=f"{dataset}-lt-{imbalance:g}", imbalance=imbalance)
