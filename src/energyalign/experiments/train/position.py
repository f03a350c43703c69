"""How far a training has come."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Self


@dataclass(frozen=True)
class Position:
    """Before batch number `batch` (from 0) of epoch number `epoch` (from 1), with the sums of this epoch so far."""

    epoch: int = 1
    batch: int = 0
    loss_sum: float = 0.0
    n_samples: int = 0

    def after_batch(self, loss: float, n_samples: int) -> Position:
        """One batch further."""
        return Position(self.epoch, self.batch + 1, self.loss_sum + loss * n_samples, self.n_samples + n_samples)

    def next_epoch(self) -> Position:
        """At the start of the next epoch."""
        return Position(self.epoch + 1)

    @property
    def mean_loss(self) -> float:
        """Over the samples of this epoch so far; NaN before the first."""
        return self.loss_sum / self.n_samples if self.n_samples else float("nan")

    def to_json(self) -> dict[str, Any]:
        """A dict of numbers. Floats survive JSON exactly."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """What `to_json` gave."""
        whole = {name: values[name] for name in ("epoch", "batch", "n_samples")}
        if not all(type(number) is int for number in whole.values()):
            raise TypeError(f"{whole} are no whole numbers")
        return cls(**whole, loss_sum=float(values["loss_sum"]))
