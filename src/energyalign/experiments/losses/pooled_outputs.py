"""Pooled outputs distillation."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn import functional as F


def pooled_outputs(before: Sequence[torch.Tensor], now: Sequence[torch.Tensor]) -> torch.Tensor:
    """``|p(before) - p(now)|``, averaged over the batch and over the maps of the stages.

    p squares a map of shape (n, channels, height, width), adds it up over the width, and over the height, puts both one
    after another and brings all to length one: where something is may move along a row or a column, not both.

    References
    ----------
    Douillard et al. 2020, PODNet: Pooled Outputs Distillation for Small-Tasks Incremental Learning, equation 4.
    """
    distances = [
        torch.linalg.vector_norm(_pooled(old) - _pooled(new), dim=1).mean()
        for old, new in zip(before, now, strict=True)
    ]
    return torch.stack(distances).mean()


def _pooled(maps: torch.Tensor) -> torch.Tensor:
    squares = maps.square()
    return F.normalize(torch.cat([squares.sum(dim=3).flatten(1), squares.sum(dim=2).flatten(1)], dim=1))
