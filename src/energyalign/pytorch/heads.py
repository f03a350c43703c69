"""Finding the part of a network that makes the logits."""

from __future__ import annotations

from typing import Any

import torch

from energyalign.core.errors import EnergyAlignError
from energyalign.core.heads import n_columns
from energyalign.pytorch.batches import ModelBatch
from energyalign.pytorch.outputs import logits_of


def find_heads(model: torch.nn.Module, batch: ModelBatch, path: str | None = None) -> list[tuple[str, torch.nn.Module]]:
    """The modules whose output is the model's logits, by name, innermost first.

    Found by looking, not by name: the model runs once and the modules whose output has the very values of the
    logits are noted. That holds for torchvision, timm, Hugging Face and hand-written networks alike.

    Parameters
    ----------
    path : str, optional
        The name of the head, for example ``"classifier.3"``; it wins over what would be found.
    """
    modules = dict(model.named_modules())
    if path is not None:
        if path not in modules:
            raise EnergyAlignError(f"the model has no module called {path!r}: see model.named_modules().")
        return [(path, modules[path])]
    outputs: list[tuple[str, torch.Tensor]] = []

    def watch(name: str) -> Any:
        def note(_module: torch.nn.Module, _inputs: Any, output: Any) -> None:
            if isinstance(output, torch.Tensor):
                outputs.append((name, output))

        return note

    # Scripted modules take no hooks; what they make cannot be folded into anyway.
    watched = {name: module for name, module in modules.items() if not isinstance(module, torch.jit.ScriptModule)}
    hooks = [module.register_forward_hook(watch(name)) for name, module in watched.items()]
    try:
        logits = logits_of(batch.call(model))
    finally:
        for hook in hooks:
            hook.remove()
    # Modules end innermost first, so that the first match is the deepest one that makes the logits.
    able = [(name, output) for name, output in outputs if can_take_bias(modules[name], n_columns(logits.shape))]
    makers = [name for name, output in able if _makes(output, logits)]
    # A constant passes through interpolation: the last coarser map may do, which is for the caller to verify.
    makers += [name for name, output in reversed(able) if name not in makers and _is_coarser(output, logits)]
    return [(name, modules[name]) for name in makers]


def _makes(output: torch.Tensor, logits: torch.Tensor) -> bool:
    """Whether the output is the logits, or has a row for every token of which the logits are one (causal models)."""
    if output.numel() == logits.numel():
        return bool(torch.equal(output.reshape(logits.shape), logits))
    if output.ndim != 3 or logits.ndim != 2 or (len(output), output.shape[2]) != tuple(logits.shape):
        return False
    return bool((output == logits[:, None]).all(2).any(1).all())


def _is_coarser(output: torch.Tensor, logits: torch.Tensor) -> bool:
    """Whether the output may be a map of pixels of which the logits are an enlargement."""
    return bool(output.ndim == logits.ndim > 3 and output.shape[:2] == logits.shape[:2])


def can_take_bias(head: torch.nn.Module, n_classes: int) -> bool:
    """Whether the module has a parameter slot called ``bias``, empty or with one number per class."""
    if "bias" not in head._parameters:
        return False
    bias = head._parameters["bias"]
    return bias is None or tuple(bias.shape) == (n_classes,)
