"""The wrapper for models into which shifts cannot be folded."""

from __future__ import annotations

from typing import Any

import torch

from energyalign.core.shifts import Shifts
from energyalign.pytorch.batches import device_of
from energyalign.pytorch.outputs import logits_of, with_logits


class AlignedModel(torch.nn.Module):  # type: ignore[misc]
    """A model whose logits come out with the shifts added.

    An ordinary module: the shifts are a buffer, so that `state_dict`, `.to` and export take them along.

    Parameters
    ----------
    model : torch.nn.Module
    shifts : Shifts
    """

    shifts: torch.Tensor

    def __init__(self, model: torch.nn.Module, shifts: Shifts) -> None:
        super().__init__()
        self.model = model
        # In float32 even if the model is not: its head may be finer than its body, and is rounded once.
        self.register_buffer("shifts", torch.tensor(shifts.values, dtype=torch.float32, device=device_of(model)))

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """What the model returns, with corrected logits."""
        output = self.model(*inputs, **named)
        logits = logits_of(output)
        shifts = self.shifts.to(logits.dtype)
        return with_logits(output, logits + (shifts[:, None, None] if logits.ndim == 4 else shifts))
