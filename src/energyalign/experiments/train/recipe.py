"""Training recipes: optimiser, schedule, batch size, number of epochs; and settings as JSON.

Epochs are counted from 1, as in the papers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

from energyalign.core.errors import EnergyAlignError

if TYPE_CHECKING:
    import torch

_Value = TypeVar("_Value")
_LEFT_OUT = "left out of JSON at its default"


@dataclass(frozen=True)
class WarmUp:
    """Linear warm-up: ``start + (1 - start) * epoch / epochs``; epoch number `epochs` is the first at full rate.

    BBN starts from a third and LDAM from 0.
    """

    epochs: int
    start: float = 0.0

    def factor(self, epoch: int, n_epochs: int, of: int) -> float:
        """Return the factor, 1 after the warm-up; for a run of `n_epochs` instead of `of` the warm-up is rescaled."""
        last = self.epochs if n_epochs == of else max(1, round(self.epochs * n_epochs / of))
        return 1.0 if epoch >= last else self.start + (1.0 - self.start) * epoch / last


@dataclass(frozen=True)
class Steps:
    """Step schedule: multiply the rate by `by` from each of the epochs `at` on.

    Milestones and warm-up are for a run of `of` epochs; for a run of another length they are rescaled.
    """

    at: tuple[int, ...]
    by: float
    of: int
    warm_up: WarmUp | None = None

    def factor(self, epoch: int, n_epochs: int) -> float:
        """Return the factor in epoch 1, 2, ..., n_epochs: the steps so far, and the warm-up."""
        rescaled = (epoch - 1) * self.of / n_epochs + 1  # the first epoch stays the first in a run of any length
        value: float = self.by ** sum(rescaled >= milestone for milestone in self.at)
        return value if self.warm_up is None else value * self.warm_up.factor(epoch, n_epochs, self.of)


@dataclass(frozen=True)
class Cosine:
    """Half a cosine from 1 towards 0: ``(1 + cos(pi (epoch - 1) / n_epochs)) / 2``."""

    def factor(self, epoch: int, n_epochs: int) -> float:
        """Return the factor: 1 in the first epoch, just above 0 in the last."""
        return 0.5 * (1.0 + math.cos(math.pi * (epoch - 1) / n_epochs))


@dataclass(frozen=True)
class Constant:
    """Constant learning rate."""

    def factor(self, epoch: int, n_epochs: int) -> float:  # noqa: ARG002
        return 1.0


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent, by default with momentum."""

    lr: float
    momentum: float = 0.9
    weight_decay: float = 5e-4
    nesterov: bool = False

    def make(self, parameters: Iterable[Any]) -> torch.optim.Optimizer:
        """Make the optimiser of these parameters, or groups of them."""
        from torch.optim import SGD as Optimizer

        decay = self.weight_decay
        return Optimizer(parameters, self.lr, momentum=self.momentum, weight_decay=decay, nesterov=self.nesterov)


@dataclass(frozen=True)
class Adam:
    """Adam, with weight decay added to the gradient."""

    lr: float = 1e-3
    weight_decay: float = 5e-4

    def make(self, parameters: Iterable[Any]) -> torch.optim.Optimizer:
        from torch.optim import Adam as Optimizer

        return Optimizer(parameters, self.lr, weight_decay=self.weight_decay, fused=True)  # one pass over the weights


@dataclass(frozen=True)
class Recipe:
    """Settings of a training: optimiser, schedule, batch size and number of epochs."""

    epochs: int
    batch_size: int
    optimizer: SGD | Adam
    schedule: Steps | Cosine | Constant

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch_size < 1:
            raise EnergyAlignError(f"epochs and batch size must be >= 1, got {self.epochs} and {self.batch_size}.")

    def lr(self, epoch: int) -> float:
        """Return the learning rate in epoch 1, 2, ..."""
        return self.optimizer.lr * self.schedule.factor(epoch, self.epochs)

    def with_weight_decay(self, weight_decay: float) -> Self:
        """Return the recipe with another weight decay, or unchanged if its optimiser is not SGD."""
        if not isinstance(self.optimizer, SGD):
            return self
        return replace(self, optimizer=replace(self.optimizer, weight_decay=weight_decay))

    def lasting(self, epochs: int) -> Self:
        """Return the recipe for another number of epochs, with its schedule rescaled."""
        return replace(self, epochs=epochs)


SETTINGS: tuple[type, ...] = (Recipe, SGD, Adam, Steps, Cosine, Constant, WarmUp)
"""The dataclasses that a recipe may consist of, for `restore`."""


def left_out_at(default: _Value) -> _Value:
    """Define a field that `describe` leaves out at its default.

    Use it for every field that you add to a config, recipe or learner, so that existing runs keep their config.
    """
    defined: _Value = field(default=default, metadata={_LEFT_OUT: True})
    return defined


def describe(value: Any) -> Any:
    """Convert dataclasses, nested ones too, to dicts with their ``kind``, and tuples to lists."""
    if is_dataclass(value) and not isinstance(value, type):
        values = {item: getattr(value, item.name) for item in fields(value)}
        settings = {
            item.name: describe(own)
            for item, own in values.items()
            if not (_LEFT_OUT in item.metadata and own == item.default)
        }
        return {"kind": type(value).__name__} | settings
    if isinstance(value, (list, tuple)):
        return [describe(item) for item in value]
    return value


def restore(value: Any, kinds: Iterable[type]) -> Any:
    """Convert the output of `describe` back; `kinds` are the dataclasses that may occur."""
    by_name = {kind.__name__: kind for kind in kinds}
    if isinstance(value, list):
        return tuple(restore(item, by_name.values()) for item in value)
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
        return value
    name = value["kind"]
    if name not in by_name:
        raise EnergyAlignError(f"unknown setting {name!r}; this version has {', '.join(sorted(by_name))}.")
    settings = {key: restore(item, by_name.values()) for key, item in value.items() if key != "kind"}
    try:
        return by_name[name](**settings)
    except TypeError as error:
        raise EnergyAlignError(f"the settings of {name} are from another version: {error}.") from error
