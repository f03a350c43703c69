"""Gradient noise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch


class GradientNoise:
    """Normal noise that is added to the gradients of parameters within the block `on`.

    The noise comes from torch's global generator, which the training loop seeds for every batch, so a resumed run draws
    the same noise. Each process adds its own noise before gradients are averaged over processes, scaled up to make up
    for the averaging.
    """

    def __init__(self, world_size: int = 1) -> None:
        self.std = 0.0
        """Standard deviation of the noise in the next backward pass."""
        self._factor = world_size**0.5

    @contextmanager
    def on(self, parameters: Iterable[torch.nn.Parameter]) -> Iterator[None]:
        """Add noise to the gradients of these parameters within the block."""
        hooks = [parameter.register_hook(self._add) for parameter in parameters]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _add(self, gradient: torch.Tensor) -> torch.Tensor:
        return gradient + self.std * self._factor * torch.randn_like(gradient)
