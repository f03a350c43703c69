"""Split the batches of a loader into inputs and labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from energyalign.core.errors import EnergyAlignError

LABEL_KEYS = ("labels", "label", "y", "target")
_BATCH_SIZE = 64


class ModelBatch(NamedTuple):
    """Arguments for the model, and the labels if the batch has them."""

    positional: tuple[Any, ...]
    named: dict[str, Any]
    labels: torch.Tensor | None

    def call(self, model: torch.nn.Module) -> Any:
        """Call the model on the inputs."""
        return model(*self.positional, **self.named)


def open_batch(batch: Any, device: torch.device) -> ModelBatch:
    """Split ``(x, y)``, ``(x,)``, a tensor, or a dict with or without labels; move it to the device.

    Labels are not passed to the model: a Hugging Face model would compute an unneeded loss.
    """
    if isinstance(batch, Mapping):
        named = {str(key): _to(value, device) for key, value in batch.items()}
        key = next((key for key in LABEL_KEYS if key in named), None)
        return ModelBatch((), named, None if key is None else _as_labels(named.pop(key)))
    if isinstance(batch, (tuple, list)):
        if len(batch) == 2:
            return ModelBatch((_to(batch[0], device),), {}, _as_labels(batch[1]))
        if len(batch) == 1:
            return ModelBatch((_to(batch[0], device),), {}, None)
        raise EnergyAlignError(
            f"the loader must yield (inputs, labels), inputs alone, or a dict of named inputs, got a "
            f"{type(batch).__name__} of {len(batch)}."
        )
    return ModelBatch((_to(batch, device),), {}, None)


def as_loader(given: Any) -> Iterable[Any]:
    """Return a loader for a dataset or for an (inputs, labels) pair of arrays; a loader is returned unchanged."""
    if isinstance(given, tuple) and len(given) == 2 and all(hasattr(part, "shape") for part in given):
        inputs, labels = (torch.as_tensor(part) for part in given)
        if labels.ndim == 1 and len(labels) == len(inputs):
            given = torch.utils.data.TensorDataset(inputs, labels)
    # Iterating over a dataset yields samples, not batches.
    whole = isinstance(given, torch.utils.data.Dataset) and not isinstance(given, torch.utils.data.IterableDataset)
    loader: Iterable[Any] = torch.utils.data.DataLoader(given, batch_size=_BATCH_SIZE) if whole else given
    return loader


def class_names_of(loader: Any, n_classes: int) -> Sequence[str] | None:
    """Return the `classes` of the loader's dataset, if there are as many as columns of logits."""
    names = getattr(getattr(loader, "dataset", None), "classes", None)
    return names if isinstance(names, (list, tuple)) and len(names) == n_classes else None


def device_of(model: torch.nn.Module) -> torch.device:
    """Return the device of the model's first parameter or buffer; the CPU if it has none."""
    for tensors in (model.parameters(), model.buffers()):
        for tensor in tensors:
            return tensor.device
    return torch.device("cpu")


def _to(value: Any, device: torch.device) -> Any:
    """Move tensors and arrays, also inside tuples, lists and dicts, to the device."""
    if isinstance(value, np.ndarray):
        value = torch.from_numpy(value)
    if hasattr(value, "to"):
        return value.to(device)
    if isinstance(value, Mapping):
        return {key: _to(inner, device) for key, inner in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(_to(inner, device) for inner in value)
    return value


def _as_labels(values: Any) -> torch.Tensor | None:
    if values is None:
        return None
    try:
        return torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise EnergyAlignError(f"expected class indices as labels of a batch: {error}.") from error
