"""Presets of all long-tailed cells of the paper, and small ones of our own."""

from __future__ import annotations

from dataclasses import dataclass, replace

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.config import FEATURES_RECIPE, Preset, has_features, presets_of, short_name
from energyalign.experiments.longtail.paper import PAPER, PaperNumbers
from energyalign.experiments.train.recipe import SGD, Cosine, Recipe, Steps, WarmUp


@dataclass(frozen=True, kw_only=True)
class LongTailPreset(Preset):
    """A cell and its long-tailed subset.

    Attributes
    ----------
    imbalance : float or None
        Largest class over smallest; None to keep all images.
    """

    imbalance: float | None

    @property
    def paper(self) -> dict[str, PaperNumbers]:
        """The paper's numbers for this cell, by method; empty for our own cells."""
        return PAPER.get(self.name, {})


# "Decayed by 0.01 at the 120th and 160th epoch", with BBN's warm-up, which starts at a third.
_CIFAR = Recipe(200, 128, SGD(0.1), Steps((120, 160), 0.01, 200, WarmUp(5, 1 / 3)))
_IMAGENET = Recipe(90, 512, SGD(0.2), Cosine())
_INATURALIST = Recipe(90, 512, SGD(0.1), Cosine())
_DIGITS = Recipe(60, 32, SGD(0.05), Cosine())

_CELLS = (
    *(
        LongTailPreset(
            name=f"cifar{n}-lt-{imbalance}", dataset=f"cifar{n}", imbalance=imbalance, backbone="resnet32",
            recipe=_CIFAR, gpu_hours=0.7, quick_epochs=15, quick_backbone="resnet8",
        )
        for n in (10, 100)
        for imbalance in (100, 50, 10)
    ),
    *(
        LongTailPreset(
            name=f"imagenet-lt-{backbone}", dataset="imagenet-lt", imbalance=None, backbone=backbone,
            recipe=_IMAGENET, gpu_hours=hours, quick_epochs=2, quick_backbone="resnet18",
        )
        for backbone, hours in (("resnet50", 16.0), ("resnext50", 22.0))
    ),
    *(
        LongTailPreset(
            name=f"inaturalist-{epochs}", dataset="inaturalist18", imbalance=None, backbone="resnet50",
            recipe=_INATURALIST.lasting(epochs), gpu_hours=hours, quick_epochs=1, quick_backbone="resnet18",
        )
        for epochs, hours in ((90, 60.0), (200, 130.0))
    ),
    LongTailPreset(
        name="digits-lt-50", dataset="digits", imbalance=50, backbone="small-cnn", recipe=_DIGITS, gpu_hours=0.01,
        quick_epochs=60, quick_backbone="small-cnn",
    ),
    LongTailPreset(
        name="fashion-lt-100", dataset="fashion-mnist", imbalance=100, backbone="resnet8", recipe=_CIFAR.lasting(30),
        gpu_hours=0.05, quick_epochs=8, quick_backbone="resnet8",
    ),
)  # fmt: skip
# Users' data are smaller than ImageNet: smaller batches, so that an epoch has several, and a lower rate to match.
_OWN_IMAGES = LongTailPreset(
    name="", dataset="", imbalance=None, backbone="resnet18", recipe=Recipe(60, 64, SGD(0.025), Cosine()),
    gpu_hours=0.0, quick_epochs=10, quick_backbone="resnet18",
)  # fmt: skip
_OWN_FEATURES = replace(_OWN_IMAGES, backbone="identity", quick_backbone="identity", recipe=FEATURES_RECIPE)
PRESETS: dict[str, LongTailPreset] = {preset.name: preset for preset in _CELLS}


def preset_for(dataset: str, imbalance: float | None) -> LongTailPreset:
    """Look up a cell by its name, or by data set and imbalance; for another imbalance, adapt the nearest cell."""
    if dataset in PRESETS:
        if imbalance not in (None, PRESETS[dataset].imbalance):
            raise EnergyAlignError(f"{dataset} has a fixed imbalance: leave --imbalance out.")
        return PRESETS[dataset]
    if ":" in dataset:  # a user's own data
        own = _OWN_FEATURES if has_features(dataset) else _OWN_IMAGES
        cut = "" if imbalance is None else f"-lt-{imbalance:g}"
        return replace(own, name=f"{short_name(dataset)}{cut}", dataset=dataset, imbalance=imbalance)
    same = presets_of(PRESETS, dataset)
    exact = [preset for preset in same if imbalance is None or preset.imbalance == imbalance]
    if exact:
        return exact[0]
    if same[0].imbalance is None:
        raise EnergyAlignError(f"{dataset} is long-tailed already: leave --imbalance out.")
    return replace(same[0], name=f"{dataset}-lt-{imbalance:g}", imbalance=imbalance)
