"""Find the module of a network that computes the logits."""

from __future__ import annotations

from typing import Any

import torch

from energyalign.core.errors import EnergyAlignError
from energyalign.core.heads import n_columns
from energyalign.pytorch.batches import ModelBatch
from energyalign.pytorch.outputs import logits_of


def find_heads(model: torch.nn.Module, batch: ModelBatch, path: str | None = None) -> list[tuple[str, torch.nn.Module]]:
    """Return the modules whose output is the model's logits, with their names, innermost first.

    The model runs once, and outputs of its modules are compared with the logits. That works for torchvision, timm,
    Hugging Face and hand-written networks alike.

    Parameters
    ----------
    model : torch.nn.Module
    batch : ModelBatch
    path : str, default=None
        Name of the head, for example ``"classifier.3"``; overrides the search.
    """
    modules = dict(model.named_modules())
    if path is not None:
        if path not in modules:
            raise EnergyAlignError(f"the model has no module {path!r}: see model.named_modules().")
        return [(path, modules[path])]
    outputs: list[tuple[str, torch.Tensor]] = []

    def watch(name: str) -> Any:
        def note(_module: torch.nn.Module, _inputs: Any, output: Any) -> None:
            if isinstance(output, torch.Tensor):
                outputs.append((name, output))

        return note

    # Scripted modules take no hooks, and their bias could not be changed anyway.
    watched = {name: module for name, module in modules.items() if not isinstance(module, torch.jit.ScriptModule)}
    hooks = [module.register_forward_hook(watch(name)) for name, module in watched.items()]
    try:
        logits = logits_of(batch.call(model))
    finally:
        for hook in hooks:
            hook.remove()
    # Inner modules return first, so that the first match is the deepest.
    able = [(name, output) for name, output in outputs if can_take_bias(modules[name], n_columns(logits.shape))]
    heads = [name for name, output in able if _is_logits(output, logits)]
    # Interpolation preserves an added constant, so the last coarser map may come from a head too; the caller verifies
    # it.
    heads += [name for name, output in reversed(able) if name not in heads and _is_coarser(output, logits)]
    return [(name, modules[name]) for name in heads]


def _is_logits(output: torch.Tensor, logits: torch.Tensor) -> bool:
    """Return whether the output is the logits, or has them as the row of one token (causal models)."""
    if output.numel() == logits.numel():
        return bool(torch.equal(output.reshape(logits.shape), logits))
    if output.ndim != 3 or logits.ndim != 2 or (len(output), output.shape[2]) != tuple(logits.shape):
        return False
    return bool((output == logits[:, None]).all(2).any(1).all())


def _is_coarser(output: torch.Tensor, logits: torch.Tensor) -> bool:
    """Return whether the logits may be an enlarged version of the output map."""
    return bool(output.ndim == logits.ndim > 3 and output.shape[:2] == logits.shape[:2])


def can_take_bias(head: torch.nn.Module, n_classes: int) -> bool:
    """Return whether the module has a parameter ``bias``, which is None or has one number per class."""
    if "bias" not in head._parameters:
        return False
    bias = head._parameters["bias"]
    return bias is None or tuple(bias.shape) == (n_classes,)
