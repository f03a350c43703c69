"""Learning rates by epoch. Epochs are counted from 1, as the papers do."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol


class Schedule(Protocol):
    """A factor on the base learning rate for every epoch."""

    def factor(self, epoch: int, n_epochs: int) -> float:
        """Of epoch 1, 2, ..., n_epochs."""


@dataclass(frozen=True)
class WarmUp:
    """Linear from `start` to 1 over the first epochs; epoch number `epochs` is the first at full rate.

    BBN starts from a third and LDAM from 0: ``start + (1 - start) * epoch / epochs``.
    """

    epochs: int
    start: float = 0.0

    def factor(self, epoch: int) -> float:
        """1 once it is over."""
        return 1.0 if epoch >= self.epochs else self.start + (1.0 - self.start) * epoch / self.epochs


@dataclass(frozen=True)
class Steps:
    """Multiplied by `by` from each of these epochs on.

    Milestones and warm-up are those of `of` epochs; a run of another length has them at the same parts of its way.
    """

    at: tuple[int, ...]
    by: float
    of: int
    warm_up: WarmUp | None = None

    def factor(self, epoch: int, n_epochs: int) -> float:
        """The product of the steps taken so far, and of the warm-up."""
        rescaled = (epoch - 1) * self.of / n_epochs + 1  # the first epoch is the first, however short the run
        value: float = self.by ** sum(rescaled >= milestone for milestone in self.at)
        return value if self.warm_up is None else value * _warm(self.warm_up, epoch, n_epochs, self.of)


@dataclass(frozen=True)
class Cosine:
    """Half a cosine from 1 towards 0: ``(1 + cos(pi (epoch - 1) / n_epochs)) / 2``."""

    def factor(self, epoch: int, n_epochs: int) -> float:
        """1 in the first epoch, just above 0 in the last."""
        return 0.5 * (1.0 + math.cos(math.pi * (epoch - 1) / n_epochs))


@dataclass(frozen=True)
class Constant:
    """The base rate throughout."""

    def factor(self, epoch: int, n_epochs: int) -> float:  # noqa: ARG002
        """Always 1."""
        return 1.0


def _warm(warm_up: WarmUp, epoch: int, n_epochs: int, of: int) -> float:
    if n_epochs == of:
        return warm_up.factor(epoch)
    shorter = max(1, round(warm_up.epochs * n_epochs / of))
    return WarmUp(shorter, warm_up.start).factor(epoch)
