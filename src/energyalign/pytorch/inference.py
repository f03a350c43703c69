"""Run a user's model without changing its state, and unwrap it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def undisturbed(model: torch.nn.Module) -> Iterator[None]:
    """Use evaluation mode without gradients; restore every module's mode and all random states afterwards.

    Autocast is left as the caller set it.
    """
    modes = [(module, module.training) for module in model.modules()]
    devices = sorted({tensor.device.index or 0 for tensor in model.parameters() if tensor.device.type == "cuda"})
    # Not inference mode: tensors that the model keeps from its forward pass must still work in training.
    with torch.random.fork_rng(devices=devices), torch.no_grad():
        _evaluate(model)
        try:
            yield
        finally:
            for module, training in modes:
                module.training = training


def _evaluate(model: torch.nn.Module) -> None:
    """Set evaluation mode; `eval` of an exported network raises, and its modules are set one by one."""
    try:
        model.eval()
    except NotImplementedError:
        for module in model.modules():
            module.training = False


def plain_network(model: torch.nn.Module) -> torch.nn.Module:
    """Return the module inside `torch.compile`, `DataParallel` and `DistributedDataParallel`."""
    while True:
        if isinstance(model, (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)):
            model = model.module
        elif isinstance(getattr(model, "_orig_mod", None), torch.nn.Module):  # importing torch._dynamo takes a second
            model = model._orig_mod
        else:
            return model
