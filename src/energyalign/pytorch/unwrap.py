"""The network inside what `torch.compile` and data parallelism put around it."""

from __future__ import annotations

import torch


def plain_network(model: torch.nn.Module) -> torch.nn.Module:
    """The module that holds the parameters: without `torch.compile`, `DataParallel`, `DistributedDataParallel`."""
    while True:
        if isinstance(model, (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)):
            model = model.module
        elif isinstance(getattr(model, "_orig_mod", None), torch.nn.Module):  # importing torch._dynamo takes a second
            model = model._orig_mod
        else:
            return model
