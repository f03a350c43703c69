"""Get and replace the logits in the output of a model."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch

from energyalign.core.errors import EnergyAlignError


def logits_of(output: Any) -> torch.Tensor:
    """Return the logits: the output itself, its `.logits` (Hugging Face), or its ``"logits"`` entry."""
    logits = output
    if not isinstance(output, torch.Tensor):
        logits = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", None)
    if not isinstance(logits, torch.Tensor):
        raise EnergyAlignError(
            f"the model must return a tensor of logits, or an output with `.logits`, got {_kind(output)}: wrap it."
        )
    return logits


def with_logits(output: Any, logits: torch.Tensor) -> Any:
    """Return the output with its logits replaced; a loss, which was computed from the old logits, is dropped."""
    if isinstance(output, torch.Tensor):
        return logits
    if isinstance(output, Mapping):  # a dict, and the outputs of Hugging Face models
        kind: Any = type(output)
        return kind({key: value for key, value in output.items() if key != "loss"} | {"logits": logits})
    changed = copy.copy(output)
    changed.logits = logits
    return changed


def _kind(output: Any) -> str:
    if isinstance(output, (tuple, list)):
        return f"a {type(output).__name__} of {len(output)}"
    return f"a {type(output).__name__}"
