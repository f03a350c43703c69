"""Noise on the gradients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch


class GradientNoise:
    """Adds normal noise to gradients while it is `on` their parameters.

    The noise comes from torch's global generator, which the training loop seeds for every batch: a run that resumes
    meets the same. It is added before gradients are averaged over processes, as all must end with one and the same;
    each process draws its own, larger by as much as averaging makes it smaller.
    """

    def __init__(self, world_size: int = 1) -> None:
        self.std = 0.0
        """For the gradients of the next backward pass."""
        self._factor = world_size**0.5

    @contextmanager
    def on(self, parameters: Iterable[torch.nn.Parameter]) -> Iterator[None]:
        """These parameters, until the block ends, however it ends."""
        hooks = [parameter.register_hook(self._added) for parameter in parameters]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _added(self, gradient: torch.Tensor) -> torch.Tensor:
        return gradient + self.std * self._factor * torch.randn_like(gradient)
