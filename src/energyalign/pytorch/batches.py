"""What a loader yields, as inputs and labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from energyalign.core.errors import EnergyAlignError

LABEL_KEYS = ("labels", "label", "y", "target")


class Batch(NamedTuple):
    """Arguments for the model, and the labels if the batch has them."""

    positional: tuple[Any, ...]
    named: dict[str, Any]
    labels: torch.Tensor | None

    def call(self, model: torch.nn.Module) -> Any:
        """What the model says about the inputs."""
        return model(*self.positional, **self.named)


def open_batch(batch: Any, device: torch.device) -> Batch:
    """Understand ``(x, y)``, ``(x,)``, a tensor, or a dict with or without labels; move it to the device.

    Labels are not passed to the model: a Hugging Face model would compute a loss nobody asked for.
    """
    if isinstance(batch, Mapping):
        named = {str(key): _to(value, device) for key, value in batch.items()}
        key = next((key for key in LABEL_KEYS if key in named), None)
        labels = None if key is None else named.pop(key)
        return Batch((), named, labels)
    if isinstance(batch, (tuple, list)):
        if len(batch) == 2:
            return Batch((_to(batch[0], device),), {}, torch.as_tensor(batch[1]))
        if len(batch) == 1:
            return Batch((_to(batch[0], device),), {}, None)
        raise EnergyAlignError(
            f"the loader yields a {type(batch).__name__} of {len(batch)}: give (inputs, labels), inputs alone, or a "
            "dict of named inputs."
        )
    return Batch((_to(batch, device),), {}, None)


def device_of(model: torch.nn.Module) -> torch.device:
    """Where the model's first parameter or buffer lives; the CPU for a model without any."""
    for tensors in (model.parameters(), model.buffers()):
        for tensor in tensors:
            return tensor.device
    return torch.device("cpu")


def _to(value: Any, device: torch.device) -> Any:
    if isinstance(value, np.ndarray):
        value = torch.from_numpy(value)
    return value.to(device) if hasattr(value, "to") else value
