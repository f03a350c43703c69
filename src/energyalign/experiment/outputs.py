"""What a network says of a set of images."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from energyalign.data.images import ImageSet
from energyalign.data.loader import evaluation_batches

Floats32 = npt.NDArray[np.float32]


def outputs(
    network: torch.nn.Module, images: ImageSet, *, workers: int = 0, device: torch.device | str = "cpu"
) -> Floats32:
    """Of all images, in their order and without augmentation; the network is in evaluation mode afterwards."""
    network.eval()
    batches = evaluation_batches(images, batch_size=500, workers=workers, device=device)
    with torch.inference_mode():
        return np.concatenate([network(batch.images).float().cpu().numpy() for batch in batches])


def scores(head: torch.nn.Module, features: Floats32, *, device: torch.device | str = "cpu") -> Floats32:
    """What a head says of features, some thousand at a time; the head is in evaluation mode afterwards."""
    head.eval()
    with torch.inference_mode():
        blocks = torch.from_numpy(features).split(4096)
        return np.concatenate([head(block.to(device)).float().cpu().numpy() for block in blocks])
