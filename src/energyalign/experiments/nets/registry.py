"""Backbones and heads by name. They are imported when used, so that listing and checking them needs no torch."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from energyalign.core.errors import EnergyAlignError

DEFAULT_SCALE = 16.0  # scale of De-confound and OLTR; LDAM and its successors use 30
PATHS_ARE_NOT_COMPILED = (
    "a network of random paths (rps) looks up at every level which modules are active, which cannot be compiled: leave "
    "out --compile."
)
DEFAULT_WEIGHTS = "default"  # for the weights of the library, instead of a file
_LIBRARIES = ("timm", "torchvision")
_HERE = "energyalign.experiments.nets"


@dataclass(frozen=True)
class Backbone:
    """A row of the registry."""

    where: str | Callable[..., Any]  # a callable that takes `in_channels`, or `module:name` of one below this package
    settings: Mapping[str, Any] = field(default_factory=dict)  # further arguments of the callable
    split: str = ""  # likewise, a function that splits off the last block, if that can be doubled
    doubled: bool = False  # whether the last block exists twice, as in BBN
    takes_features: bool = False  # instead of images

    @property
    def is_own(self) -> bool:
        """Return whether it was registered by the user."""
        return not isinstance(self.where, str)

    @property
    def has_random_paths(self) -> bool:
        """Return whether each step of a run trains other modules of this backbone."""
        return isinstance(self.where, str) and self.where.startswith("random_paths:")

    def make(self, in_channels: int = 3) -> Any:
        """Make an untrained backbone, with weights from torch's global generator."""
        if not self.doubled:
            make = load(self.where) if isinstance(self.where, str) else self.where
            return make(**self.settings, in_channels=in_channels)
        from energyalign.experiments.nets.bbn import TwoBranches

        return TwoBranches(Backbone(self.where, self.settings).make, load(self.split), in_channels=in_channels)


@dataclass(frozen=True)
class Head:
    """A row of the registry: ``module:name`` of a class, and whether it normalises features and weights."""

    where: str
    is_normalised: bool

    def make(self, n_features: int, n_classes: int, *, scale: float, learned_scale: bool) -> Any:
        """Make an untrained head; the scale applies to normalised heads only."""
        settings = {"scale": scale, "learned_scale": learned_scale} if self.is_normalised else {}
        return load(self.where)(n_features, n_classes, **settings)


_RESNET, _SPLIT = "backbones:CifarResNet", "backbones:CifarResNet.split"
_LARGE, _SPLIT_LARGE = "backbones:torchvision_resnet", "backbones:split_resnet"
_SINGLE: dict[str, Backbone] = {
    "resnet32": Backbone(_RESNET, split=_SPLIT),  # for 32x32 pixels, 64 features
    "resnet8": Backbone(_RESNET, {"blocks_per_stage": 1}, _SPLIT),  # ResNet-32 with one block a stage, for quick runs
    "resnet18": Backbone(_LARGE, {"name": "resnet18"}, _SPLIT_LARGE),  # for photographs, 512 features
    "resnet50": Backbone(_LARGE, {"name": "resnet50"}, _SPLIT_LARGE),  # for photographs, 2,048 features
    "resnext50": Backbone(_LARGE, {"name": "resnext50_32x4d"}, _SPLIT_LARGE),  # likewise
    "small-cnn": Backbone("backbones:SmallCnn", split="backbones:SmallCnn.split"),  # for 8x8 to 32x32 pixels
    "rps-small": Backbone("random_paths:small"),  # paths through modules, for 8x8 to 32x32 pixels, 64 features
    "rps-large": Backbone("random_paths:large"),  # for photographs, 512 features
    "identity": Backbone("backbones:Identity", takes_features=True),  # the head alone, on features
    "mlp": Backbone("backbones:Mlp", takes_features=True),  # a hidden layer between features and head, 512 units
}
BACKBONES: dict[str, Backbone] = _SINGLE | {
    f"{name}-bbn": Backbone(entry.where, entry.settings, entry.split, doubled=True)  # Zhou et al. 2020
    for name, entry in _SINGLE.items()
    if entry.split
}
HEADS: dict[str, Head] = {
    "linear": Head("heads:LinearHead", False),
    "cosine": Head("heads:CosineHead", True),
    "capsule": Head("heads:CapsuleHead", True),
    "causal-norm": Head("heads:CausalNormHead", True),
}


def register_backbone(name: str, make: Callable[..., Any], *, takes_features: bool = False) -> None:
    """Register a backbone of your own for this process, to be used as ``backbone=name``.

    Parameters
    ----------
    name : str
    make : callable
        A class or function: ``make(in_channels=...)`` returns a `torch.nn.Module` from images (n, channels, height,
        width), or from features (n, in_channels), to features (n, n_features), with the attribute ``n_features``.
    takes_features : bool, default False
        Whether samples are features instead of images.
    """
    if not callable(make):
        raise EnergyAlignError(f"make must be a class or function that returns a network, got {make!r:.80}.")
    if name in BACKBONES or ":" in name:
        raise EnergyAlignError(
            f"cannot register a backbone {name!r}: the name is taken, or has a colon. Choose another."
        )
    BACKBONES[name] = Backbone(make, takes_features=takes_features)


def is_of_library(backbone: str) -> bool:
    """Return whether this is a network of timm or torchvision."""
    return backbone.partition(":")[0] in _LIBRARIES


def check_network(backbone: str, head: str, weights: str | None = None) -> None:
    """Raise an error for unknown names and missing weights, without making the network."""
    check_head(head)
    if weights not in (None, DEFAULT_WEIGHTS) and not Path(weights).is_file():
        raise EnergyAlignError(f"--weights {weights} is not a file: give a safetensors file, or {DEFAULT_WEIGHTS}.")
    if is_of_library(backbone):
        if backbone.endswith("-bbn"):
            raise EnergyAlignError(
                f"there is no {backbone}: bbn doubles the last block, which is unknown for "
                f"{backbone.removesuffix('-bbn')}. Leave out bbn, or choose a backbone without a colon."
            )
        return
    if weights == DEFAULT_WEIGHTS:
        raise EnergyAlignError(
            f"--weights {DEFAULT_WEIGHTS} is for networks of a library, which {backbone} is not: give --backbone "
            "torchvision:NAME or timm:NAME, or --weights PATH."
        )
    if backbone not in BACKBONES:
        single = ", ".join(name for name, entry in _SINGLE.items() if entry.split)
        others = ", ".join(name for name, entry in BACKBONES.items() if not entry.split)
        raise EnergyAlignError(
            f"unknown backbone {backbone!r}: choose {single}, one of these followed by -bbn for two last blocks, "
            f"{others}, or any network of a library: timm:NAME, torchvision:NAME."
        )


def check_head(name: str) -> None:
    """Raise an error for an unknown name."""
    if name not in HEADS:
        raise EnergyAlignError(f"unknown head {name!r}: choose {', '.join(HEADS)}.")


def load(where: str) -> Any:
    """Import ``module:name`` of this package."""
    return pkgutil.resolve_name(f"{_HERE}.{where}")
