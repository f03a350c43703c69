"""Presets of all class-incremental cells of the paper, and small ones of our own."""

from __future__ import annotations

from dataclasses import dataclass, replace

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.config import FEATURES_RECIPE, Preset, has_features, presets_of, short_name
from energyalign.experiments.incremental.paper import PAPER, PaperCurve
from energyalign.experiments.train.recipe import SGD, Cosine, Recipe, Steps


@dataclass(frozen=True, kw_only=True)
class IncrementalPreset(Preset):
    """A cell whose classes come in steps.

    Attributes
    ----------
    subset, order : str
        Which classes come, and in which order. The paper does not say; these are the most common ones.
    memory_total : int or None
        Exemplars of all old classes together; None for 4 % of the training images, the share of 2,000 in CIFAR.
    lambda_base : float
        Weight of distillation in the limit of many old classes.
    weight_decay_factor : float
        Eta: step b has the weight decay of the recipe times ``eta ** (b - 1)``.
    """

    n_steps: int
    memory_total: int | None
    lambda_base: float = 0.5
    weight_decay_factor: float = 0.5
    order: str = "seed1993"

    @property
    def paper(self) -> dict[str, PaperCurve]:
        """The paper's numbers for this cell, by method; empty for our own cells."""
        return PAPER.get(self.name, {})

    def memory_for(self, n_train: int, n_classes: int) -> int:
        """Return the default number of exemplars of a data set of this size, at least one for each class."""
        return self.memory_total or max(n_classes, n_train // 25)


_IMAGENET = Recipe(100, 256, SGD(0.1, weight_decay=5e-4), Steps((31, 61, 81, 91), 0.1, 100))
_DIGITS = Recipe(20, 32, SGD(0.05), Cosine())
_SMALL = Recipe(20, 64, SGD(0.05), Cosine())


def _cifar(n_steps: int, lambda_base: float, weight_decay: float, factor: float, *, hours: float) -> IncrementalPreset:
    # "After 100, 150 and 200 epochs": the first epoch at the lower rate is the one that follows.
    recipe = Recipe(250, 32, SGD(0.1, weight_decay=weight_decay), Steps((101, 151, 201), 0.1, 250))
    return IncrementalPreset(
        name=f"cifar100-il-{n_steps}", dataset="cifar100", n_steps=n_steps, backbone="resnet32", recipe=recipe,
        memory_total=2000, lambda_base=lambda_base, weight_decay_factor=factor, gpu_hours=hours, quick_epochs=8,
        quick_backbone="resnet8",
    )  # fmt: skip


_CELLS = (
    _cifar(10, 0.5, 4e-4, 0.5, hours=3.0),
    _cifar(2, 1.0, 1e-4, 0.3, hours=2.3),
    _cifar(5, 0.75, 2e-4, 0.3, hours=2.5),
    _cifar(20, 0.5, 4e-4, 0.5, hours=3.8),
    IncrementalPreset(
        name="imagenet100-il-10", dataset="imagenet", n_steps=10, backbone="resnet18", recipe=_IMAGENET,
        memory_total=2000, lambda_base=1.0, gpu_hours=6.0, quick_epochs=2, quick_backbone="resnet18",
        subset="seed1993",
    ),
    IncrementalPreset(
        name="imagenet-il-10", dataset="imagenet", n_steps=10, backbone="resnet18", recipe=_IMAGENET,
        memory_total=20000, lambda_base=1.0, weight_decay_factor=0.25, gpu_hours=55.0, quick_epochs=1,
        quick_backbone="resnet18",
    ),
    # Our own small cells, with the settings of ten steps on CIFAR-100.
    IncrementalPreset(
        name="digits-il-5", dataset="digits", n_steps=5, backbone="small-cnn", recipe=_DIGITS, memory_total=40,
        gpu_hours=0.01, quick_epochs=20, quick_backbone="small-cnn", order="natural",
    ),
    IncrementalPreset(
        name="fashion-il-5", dataset="fashion-mnist", n_steps=5, backbone="resnet8", recipe=_SMALL, memory_total=200,
        gpu_hours=0.1, quick_epochs=4, quick_backbone="small-cnn", order="natural",
    ),
    IncrementalPreset(
        name="cifar10-il-5", dataset="cifar10", n_steps=5, backbone="resnet32", recipe=_SMALL, memory_total=200,
        gpu_hours=1.0, quick_epochs=4, quick_backbone="resnet8", order="natural",
    ),
)  # fmt: skip
# Users' data are smaller than ImageNet: smaller batches, so that an epoch has several, and a lower rate to match.
_OWN_IMAGES = IncrementalPreset(
    name="", dataset="", n_steps=5, backbone="resnet18", recipe=Recipe(60, 64, SGD(0.025), Cosine()),
    memory_total=None, gpu_hours=0.0, quick_epochs=10, quick_backbone="resnet18", order="natural",
)  # fmt: skip
_OWN_FEATURES = replace(_OWN_IMAGES, backbone="identity", quick_backbone="identity", recipe=FEATURES_RECIPE)
PRESETS: dict[str, IncrementalPreset] = {preset.name: preset for preset in _CELLS}
# The paper's names for its two selections of ImageNet.
_BY_DATASET = {"imagenet100": "imagenet100-il-10", "imagenet1000": "imagenet-il-10", "imagenet": "imagenet-il-10"}


def preset_for(dataset: str, n_steps: int | None) -> IncrementalPreset:
    """Look up a cell by its name, or by data set and number of steps; for another number, adapt the nearest cell."""
    if dataset in PRESETS:
        if n_steps not in (None, PRESETS[dataset].n_steps):
            raise EnergyAlignError(f"{dataset} has a fixed number of steps: leave --steps out.")
        return PRESETS[dataset]
    if ":" in dataset:  # a user's own data
        own = _OWN_FEATURES if has_features(dataset) else _OWN_IMAGES
        n_steps = own.n_steps if n_steps is None else n_steps
        return replace(own, name=f"{short_name(dataset)}-il-{n_steps}", dataset=dataset, n_steps=n_steps)
    same = presets_of(PRESETS, dataset, _BY_DATASET)
    if n_steps is None:
        return same[0]
    nearest = min(same, key=lambda preset: abs(preset.n_steps - n_steps))
    return replace(nearest, name=f"{nearest.name.rpartition('-')[0]}-{n_steps}", n_steps=n_steps)


def selection_of(name: str) -> tuple[str, str] | None:
    """Return data set and subset of a named selection, such as imagenet100; None for other names."""
    preset = PRESETS.get(_BY_DATASET.get(name, ""))
    return None if preset is None else (preset.dataset, preset.subset)
