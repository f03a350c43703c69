"""Running a user's model without leaving a trace on it."""

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
    with torch.random.fork_rng(devices=devices), torch.inference_mode():
        for module, _ in modes:  # not model.eval(), which an exported network refuses
            module.training = False
        try:
            yield
        finally:
            for module, training in modes:
                module.training = training
