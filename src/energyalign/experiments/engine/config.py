"""What a run is made of: names, evidence, methods, presets and learners; and the config that fixes it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.nets.registry import BACKBONES, DEFAULT_SCALE, PATHS_ARE_NOT_COMPILED
from energyalign.experiments.train.recipe import SETTINGS, Adam, Cosine, Recipe, describe, left_out_at, restore

AS_IN_TRAINING = "training"
IMAGE_POLICIES = (AS_IN_TRAINING, "none", "crop-flip", "one", "two", "half")
"""``training`` augments as the training did; the others are those of `energyalign.pytorch.augment`."""
FEATURE_POLICIES = ("none", "noise", "mixup")
"""See `energyalign.experiments.data.features`."""

# Of a head on features. Adam's steps do not depend on the scale of features, which differs from encoder to encoder.
FEATURES_RECIPE = Recipe(60, 128, Adam(1e-3, weight_decay=0.0), Cosine())

_Entry = TypeVar("_Entry")
_Preset = TypeVar("_Preset", bound="Preset")


def look_up(registry: Mapping[str, _Entry], name: str, kind: str) -> _Entry:
    """The entry of this name, or an error that lists those there are."""
    if name not in registry:
        raise EnergyAlignError(f"unknown {kind} {name!r}: choose one of {', '.join(registry)}.")
    return registry[name]


def has_features(dataset: str) -> bool:
    """Whether samples of the data set are features, not images."""
    return dataset.startswith("features:")


def short_name(dataset: str) -> str:
    """``folder:/data/my images`` becomes ``folder-my-images``."""
    kind, _, path = dataset.partition(":")
    return "-".join([kind, *re.findall(r"\w+", path.rstrip("/").rpartition("/")[2])])


@dataclass(frozen=True)
class EvidencePlan:
    """How many images of each class are drawn from the training data, and how they are augmented.

    Attributes
    ----------
    per_class : int, default 50
        Images of each class.
    policy : str, default "two"
        A name of `IMAGE_POLICIES` or `FEATURE_POLICIES`. The paper lists ten transformations but not how many an image
        undergoes.
    """

    per_class: int = 50
    policy: str = "two"

    def __post_init__(self) -> None:
        if self.per_class < 1:
            raise EnergyAlignError(f"the evidence size must be >= 1 image of each class, got {self.per_class}.")
        known = dict.fromkeys((*IMAGE_POLICIES, *FEATURE_POLICIES))
        if self.policy not in known:
            raise EnergyAlignError(f"unknown evidence policy {self.policy!r}: choose one of {', '.join(known)}.")

    @classmethod
    def default_for(cls, dataset: str) -> Self:
        """The evidence of a data set unless another is asked for."""
        return cls(policy="mixup") if has_features(dataset) else cls()

    def check_for(self, dataset: str) -> None:
        """Refuse what cannot be done to samples of the data set."""
        suitable = FEATURE_POLICIES if has_features(dataset) else IMAGE_POLICIES
        if self.policy not in suitable:
            kind = "features" if has_features(dataset) else "images"
            raise EnergyAlignError(
                f"evidence policy {self.policy!r} is not for {kind}, which {dataset} has: choose one of "
                f"{', '.join(suitable)}."
            )

    def __str__(self) -> str:
        return f"{self.policy} x {self.per_class}"


class Method(NamedTuple):
    """A row of a table: a learner with a corrector behind it.

    Attributes
    ----------
    learner, corrector : str
        Names of the application's learners, and of `energyalign.experiments.correctors.CORRECTORS`.
    description, reference : str
    head : str or None
        The head that belongs to the row; None for that of the cell, cosine as in the paper.
    memory : str
        How exemplars are chosen, in class-incremental rows.
    in_paper : bool
        Whether a table of the paper has the row.
    """

    learner: str
    corrector: str
    description: str
    reference: str
    head: str | None = None
    memory: str = ""
    in_paper: bool = True


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A cell of the paper, or one of ours: data, network and recipe. Each application adds its protocol.

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


def presets_of(
    presets: Mapping[str, _Preset], dataset: str, selections: Mapping[str, str] = MappingProxyType({})
) -> list[_Preset]:
    """The cells of a data set, or an error that lists what there is; `selections` names presets of parts of one."""
    if dataset in selections:
        return [presets[selections[dataset]]]
    same = [preset for preset in presets.values() if preset.dataset == dataset]
    if not same:
        known = sorted({preset.dataset for preset in presets.values()} | set(selections))
        raise EnergyAlignError(
            f"there is no preset for {dataset!r}: choose one of {', '.join(known)}, folder:PATH, lists:PATH or "
            f"parquet:PATH for your own images, features:PATH, or a preset by name: {', '.join(presets)}."
        )
    return same


@dataclass(frozen=True)
class Learner:
    """A way to train: a frozen dataclass whose fields are its hyper-parameters, by default the original's.

    They are part of the run's config. Everything random comes from torch's global generator, which the training loop
    seeds for every batch, or from a seed derived for the purpose. A learner imports torch where it uses it, so that
    tables can be made without.
    """

    name: ClassVar[str] = ""
    head: ClassVar[str | None] = None
    """The head that belongs to it, whatever the cell says."""
    part_of_cell: ClassVar[float] = 1.0
    """How much of the cell's epochs it takes; a second stage has the rest."""

    has_own_backbone: ClassVar[bool] = False
    """Whether it builds its backbone its own way, so that weights of another do not fit and none can be frozen."""

    def backbone(self, name: str) -> str:
        """The backbone it trains where the cell has this one."""
        return name

    def recipe(self, preset: Preset) -> Recipe:
        """The preset's recipe, changed where the original method has its own schedule or optimiser settings."""
        return preset.recipe


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One training: data, network, recipe and seed. Rows of correctors behind it share it.

    Attributes
    ----------
    name : str
        Of the cell.
    seed : int
        Of initialisation, order, augmentation and evidence.
    weights : str or None
        A file that the backbone starts from, or ``default`` for those of its library.
    freeze : bool
        Whether the head alone is trained.
    """

    in_steps: ClassVar[bool] = False
    """Whether classes come in steps."""

    name: str
    learner: Learner
    dataset: str
    backbone: str
    head: str
    scale: float = DEFAULT_SCALE
    learned_scale: bool = False
    recipe: Recipe
    seed: int
    precision: str = "32-true"
    compile: bool = left_out_at(False)
    weights: str | None = left_out_at(None)
    freeze: bool = left_out_at(False)

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise EnergyAlignError(f"the seed must be >= 0, got {self.seed}.")
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise EnergyAlignError(f"the scale must be a positive number, got {self.scale}.")
        if not isinstance(self.dataset, str):  # of a file that was changed
            raise EnergyAlignError(f"the data set must be a name, got {self.dataset!r:.80}.")
        for_features = [name for name, entry in BACKBONES.items() if entry.takes_features]
        if (self.backbone in for_features) != has_features(self.dataset):
            wanted = " or ".join(for_features) if has_features(self.dataset) else "a backbone for images"
            raise EnergyAlignError(
                f"{self.dataset} needs {wanted}, but {self.learner.name} would train {self.backbone}: give another "
                "--backbone, or leave out that method."
            )
        if self.compile and BACKBONES.get(self.backbone, BACKBONES["resnet32"]).has_random_paths:
            raise EnergyAlignError(PATHS_ARE_NOT_COMPILED)
        if self.freeze and self.weights is None:
            raise EnergyAlignError(
                "--freeze keeps the backbone as it is, and without weights it is random: give --weights too."
            )
        if self.weights is not None and self.learner.has_own_backbone:
            raise EnergyAlignError(
                f"{self.learner.name} has a backbone of its own kind: leave out --weights and --freeze, or "
                f"{self.learner.name}."
            )

    @property
    def default_evidence(self) -> EvidencePlan:
        """The evidence that rows are measured with unless another is asked for."""
        return EvidencePlan.default_for(self.dataset)

    @classmethod
    def of_cell(cls, preset: Preset, learner: Learner, **others: Any) -> Self:
        """The cell as the learner changes it; `others` are the fields that neither decides."""
        return cls(
            name=preset.name, learner=learner, dataset=preset.dataset, backbone=learner.backbone(preset.backbone),
            head=learner.head or preset.head, recipe=learner.recipe(preset), **others,
        )  # fmt: skip

    @classmethod
    def restore(cls, value: dict[str, Any], learners: Mapping[str, Learner], *kinds: type) -> Self:
        """What `to_json` wrote; `kinds` are the dataclasses that may occur besides recipes and learners."""
        config = restore(value, [cls, EvidencePlan, *SETTINGS, *kinds, *map(type, learners.values())])
        if not isinstance(config, cls):
            raise EnergyAlignError(f"these are not the settings of a {cls.__name__}, but of a {value.get('kind')}.")
        return config

    def to_json(self) -> dict[str, Any]:
        """For config.json: a run directory belongs to one of these."""
        result: dict[str, Any] = describe(self)
        return result
