"""What a loader yields."""

from __future__ import annotations

from typing import NamedTuple

import torch


class Batch(NamedTuple):
    """Normalised float32 images of shape (N, C, H, W) and their labels (int64)."""

    images: torch.Tensor
    labels: torch.Tensor
