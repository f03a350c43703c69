"""Running a user's model without leaving a trace on it, and the network inside its wrappers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def undisturbed(model: torch.nn.Module) -> Iterator[None]:
    """Evaluation mode and no gradients inside; every module's mode and all random states as before afterwards.

    Autocast is left as the caller has it.
    """
    modes = [(module, module.training) for module in model.modules()]
    devices = sorted({tensor.device.index or 0 for tensor in model.parameters() if tensor.device.type == "cuda"})
    # Not inference mode: what the model keeps of its forward pass must still serve in training.
    with torch.random.fork_rng(devices=devices), torch.no_grad():
        _evaluate(model)
        try:
            yield
        finally:
            for module, training in modes:
                module.training = training


def _evaluate(model: torch.nn.Module) -> None:
    """Evaluation mode; an exported network refuses to be asked, and its parts are told one by one."""
    try:
        model.eval()
    except NotImplementedError:
        for module in model.modules():
            module.training = False


def plain_network(model: torch.nn.Module) -> torch.nn.Module:
    """The module that holds the parameters: without `torch.compile`, `DataParallel`, `DistributedDataParallel`."""
    while True:
        if isinstance(model, (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)):
            model = model.module
        elif isinstance(getattr(model, "_orig_mod", None), torch.nn.Module):  # importing torch._dynamo takes a second
            model = model._orig_mod
        else:
            return model
