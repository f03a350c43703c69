"""How a network is trained: optimiser, schedule, batch size, number of epochs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, Self

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.train.schedule import Constant, Cosine, Schedule, Steps, WarmUp

if TYPE_CHECKING:
    import torch


class OptimizerRecipe(Protocol):
    """Settings that can make an optimiser."""

    @property
    def lr(self) -> float: ...

    def make(self, parameters: Iterable[Any]) -> torch.optim.Optimizer:
        """The optimiser of these parameters, or groups of them."""


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent; ``momentum=0`` for none."""

    lr: float
    momentum: float = 0.9
    weight_decay: float = 5e-4
    nesterov: bool = False

    def make(self, parameters: Iterable[Any]) -> torch.optim.Optimizer:
        """The optimiser of these parameters, or groups of them."""
        from torch.optim import SGD as Optimizer

        return Optimizer(
            parameters, self.lr, momentum=self.momentum, weight_decay=self.weight_decay, nesterov=self.nesterov
        )


@dataclass(frozen=True)
class Adam:
    """Adam, with weight decay in the gradient."""

    lr: float = 1e-3
    weight_decay: float = 5e-4

    def make(self, parameters: Iterable[Any]) -> torch.optim.Optimizer:
        """The optimiser of these parameters, or groups of them."""
        from torch.optim import Adam as Optimizer

        return Optimizer(parameters, self.lr, weight_decay=self.weight_decay)


@dataclass(frozen=True)
class Recipe:
    """All that a training needs beside data, network and loss."""

    epochs: int
    batch_size: int
    optimizer: OptimizerRecipe
    schedule: Schedule

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch_size < 1:
            raise EnergyAlignError("epochs and batch size must be at least 1.")

    def lr(self, epoch: int) -> float:
        """The learning rate in epoch 1, 2, ..."""
        return self.optimizer.lr * self.schedule.factor(epoch, self.epochs)

    def with_weight_decay(self, weight_decay: float) -> Self:
        """The same recipe with another weight decay, if its optimiser is SGD."""
        if not isinstance(self.optimizer, SGD):
            return self
        return replace(self, optimizer=replace(self.optimizer, weight_decay=weight_decay))

    def lasting(self, epochs: int) -> Self:
        """The same recipe over another number of epochs, its schedule stretched accordingly."""
        return replace(self, epochs=epochs)


SETTINGS: tuple[type, ...] = (Recipe, SGD, Adam, Steps, Cosine, Constant, WarmUp)
"""All that a recipe may be made of, for reading it back from JSON."""
