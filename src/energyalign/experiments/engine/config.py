"""Evidence plans, methods, presets and learners, and the config that defines a run."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.nets.registry import BACKBONES, DEFAULT_SCALE, PATHS_ARE_NOT_COMPILED
from energyalign.experiments.train.recipe import SETTINGS, Adam, Cosine, Recipe, describe, left_out_at, restore

if TYPE_CHECKING:
    from energyalign.experiments.train.run_directory import RunDirectory

AS_IN_TRAINING = "training"
IMAGE_POLICIES = (AS_IN_TRAINING, "none", "crop-flip", "one", "two", "half")
"""``training`` augments as the training did; the others are policies of `energyalign.pytorch.augment`."""
FEATURE_POLICIES = ("none", "noise", "mixup")
"""See `energyalign.experiments.data.features`."""

# For heads on features. Adam's steps do not depend on the scale of the features, which differs between encoders.
FEATURES_RECIPE = Recipe(60, 128, Adam(1e-3, weight_decay=0.0), Cosine())

_Entry = TypeVar("_Entry")
_Preset = TypeVar("_Preset", bound="Preset")


def look_up(registry: Mapping[str, _Entry], name: str, kind: str) -> _Entry:
    """Return the entry of this name, or raise an error that lists the known names."""
    if name not in registry:
        raise EnergyAlignError(f"unknown {kind} {name!r}: choose one of {', '.join(registry)}.")
    return registry[name]


def has_features(dataset: str) -> bool:
    """Return whether the samples of a data set are features, not images."""
    return dataset.startswith("features:")


def same_kind(one: str, other: str) -> bool:
    """Return whether two data sets of the user's own can differ only in their paths, as after a move."""
    kind, colon, _ = one.partition(":")
    return bool(colon) and other.startswith(kind + colon)


def stored_place(run: RunDirectory, dataset: str) -> dict[str, Any]:
    """Return where the data of a run were when it began, as fields of its config; empty if they have not moved.

    A path is not a setting: the manifest of the run, which must be there, decides whether the data are the same.
    """
    stored = run.read_json("config.json") or {}
    if not (same_kind(dataset, str(stored.get("dataset"))) and (run.path / "manifest.json").exists()):
        return {}
    return {key: str(stored.get(key)) for key in ("dataset", "name")}  # the name has the last part of the path


def short_name(dataset: str) -> str:
    """Shorten the name of a data set: ``folder:/data/my images`` becomes ``folder-my-images``."""
    kind, _, path = dataset.partition(":")
    return "-".join([kind, *re.findall(r"\w+", path.rstrip("/").rpartition("/")[2])])


@dataclass(frozen=True)
class EvidencePlan:
    """How evidence is drawn from the training images: how many of each class, and how they are augmented.

    Attributes
    ----------
    per_class : int, default 50
        Images of each class.
    policy : str, default "two"
        A name of `IMAGE_POLICIES` or `FEATURE_POLICIES`. The paper lists ten transformations, but does not say how many
        are applied to an image.
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
        """Return the default plan for a data set."""
        return cls(policy="mixup") if has_features(dataset) else cls()

    def check_for(self, dataset: str) -> None:
        """Raise if the policy does not apply to the samples of a data set."""
        kind, suitable = ("features", FEATURE_POLICIES) if has_features(dataset) else ("images", IMAGE_POLICIES)
        if self.policy not in suitable:
            raise EnergyAlignError(
                f"evidence policy {self.policy!r} is not for {kind}, which {dataset} has: choose one of "
                f"{', '.join(suitable)}."
            )

    def __str__(self) -> str:
        return f"{self.policy} x {self.per_class}"


class Method(NamedTuple):
    """A learner with a corrector behind it: one row of a table.

    Attributes
    ----------
    learner, corrector : str
        A name of the application's learners, and one of `energyalign.experiments.correctors.CORRECTORS`.
    description, reference : str
    head : str or None, default None
        The head of the method; None for the head of the cell, which is cosine as in the paper.
    memory : str, default ""
        How exemplars are chosen, for class-incremental methods.
    in_paper : bool, default True
        Whether a table of the paper has the method.
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
    """A cell of the paper's tables, or a cell of our own: data, network and recipe. Each application adds its protocol.

    Attributes
    ----------
    gpu_hours : float
        A rough estimate for one V100, from the sizes of network and data; not measured.
    quick_epochs : int
    quick_backbone : str
        Epochs and backbone with ``--quick``, sized for two CPU cores.
    head : str, default "cosine"
    subset : str, default "all"
        Which classes of the data set are used.
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
        """Whether the data set is CIFAR, for which most methods have published settings."""
        return self.dataset in ("cifar10", "cifar100")

    def quick(self) -> Self:
        """Return the cell with the settings of ``--quick``."""
        return replace(self, backbone=self.quick_backbone, recipe=self.recipe.lasting(self.quick_epochs))

    def with_head(self, head: str | None) -> Self:
        """Return the cell with another head; None keeps the cell's head."""
        return replace(self, head=head or self.head)


def presets_of(
    presets: Mapping[str, _Preset], dataset: str, selections: Mapping[str, str] = MappingProxyType({})
) -> list[_Preset]:
    """Return the presets of a data set, or raise an error that lists the known names.

    `selections` maps names of parts of a data set to presets.
    """
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
    """A way to train. The fields of the dataclass are its hyper-parameters; defaults are the published values.

    They are part of the run's config. All randomness comes from torch's global generator, which the training loop seeds
    for every batch, or from a seed derived for the purpose. A learner imports torch inside its methods, so that tables
    can be made without torch.
    """

    name: ClassVar[str] = ""
    head: ClassVar[str | None] = None
    """The head of the learner, which overrides the cell's head."""
    part_of_cell: ClassVar[float] = 1.0
    """The share of the cell's epochs that the learner trains; a second stage trains the rest."""

    has_own_backbone: ClassVar[bool] = False
    """Whether the learner builds its own backbone, which cannot start from other weights and cannot be frozen."""

    def backbone(self, name: str) -> str:
        """Return the backbone to train, given the backbone of the cell."""
        return name

    def recipe(self, preset: Preset) -> Recipe:
        """Return the preset's recipe, changed where the method has its own schedule or optimiser settings."""
        return preset.recipe


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One training: data, network, recipe and seed. All correctors behind it share it.

    Attributes
    ----------
    name : str
        Name of the cell.
    seed : int
        Seed of initialisation, order, augmentation and evidence.
    weights : str or None, default None
        File of the backbone's initial weights, or ``default`` for the weights of its library.
    freeze : bool, default False
        Whether to train the head alone.
    held_out : float, default 0
        Share of the training images of each class that is held out from training, for correctors that need it.
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
    held_out: float = left_out_at(0.0)

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise EnergyAlignError(f"the seed must be >= 0, got {self.seed}.")
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise EnergyAlignError(f"the scale must be a positive number, got {self.scale}.")
        if not 0 <= self.held_out < 1:
            raise EnergyAlignError(f"the held-out share must be >= 0 and < 1, got {self.held_out:g}.")
        if not isinstance(self.dataset, str):  # config.json may have been edited
            raise EnergyAlignError(f"the data set must be a name, got {self.dataset!r:.80}.")
        for_features = [name for name, entry in BACKBONES.items() if entry.takes_features]
        if (self.backbone in for_features) != has_features(self.dataset):
            wanted = " or ".join(for_features) if has_features(self.dataset) else "a backbone for images"
            advice = "give another --backbone, or leave out that method"
            if self.backbone in BACKBONES and BACKBONES[self.backbone].is_own:
                advice = f"register it with takes_features={has_features(self.dataset)}, or choose another backbone"
            raise EnergyAlignError(
                f"{self.dataset} needs {wanted}, but {self.learner.name} would train {self.backbone}: {advice}."
            )
        if self.compile and BACKBONES.get(self.backbone, BACKBONES["resnet32"]).has_random_paths:
            raise EnergyAlignError(PATHS_ARE_NOT_COMPILED)
        if self.freeze and self.weights is None:
            raise EnergyAlignError(
                "--freeze keeps the backbone as it is, and without weights it is random: give --weights too."
            )
        if self.weights is not None and self.learner.has_own_backbone:
            raise EnergyAlignError(
                f"{self.learner.name} builds its own backbone: leave out --weights and --freeze, or "
                f"{self.learner.name}."
            )

    @property
    def default_evidence(self) -> EvidencePlan:
        """The evidence plan that is used if none is given."""
        return EvidencePlan.default_for(self.dataset)

    @classmethod
    def of_cell(cls, preset: Preset, learner: Learner, **others: Any) -> Self:
        """Make the config of a preset and a learner; `others` are the fields that neither determines."""
        return cls(
            name=preset.name, learner=learner, dataset=preset.dataset, backbone=learner.backbone(preset.backbone),
            head=learner.head or preset.head, recipe=learner.recipe(preset), **others,
        )  # fmt: skip

    @classmethod
    def restore(cls, value: dict[str, Any], learners: Mapping[str, Learner], *kinds: type) -> Self:
        """Convert the output of `to_json` back; `kinds` are the dataclasses besides recipes and learners."""
        config = restore(value, [cls, EvidencePlan, *SETTINGS, *kinds, *map(type, learners.values())])
        if not isinstance(config, cls):
            raise EnergyAlignError(f"expected the settings of a {cls.__name__}, got settings of a {value.get('kind')}.")
        return config

    def to_json(self) -> dict[str, Any]:
        """Return the content of config.json."""
        result: dict[str, Any] = describe(self)
        return result
