"""What a network says of a set of images."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from energyalign.experiments.data.images import ImageSet
from energyalign.experiments.data.loader import evaluation_batches
from energyalign.pytorch.ranks import failing_together, from_all_ranks
from energyalign.pytorch.store import LogitStore

Floats32 = npt.NDArray[np.float32]


def outputs(
    network: torch.nn.Module, images: ImageSet, *, workers: int = 0, device: torch.device | str = "cpu"
) -> Floats32:
    """Of all images, in their order and without augmentation; the network, or part of one, is in evaluation mode.

    The ranks of a process group share the batches, and each ends with what all of them said.
    """
    said = LogitStore()
    with failing_together(), torch.inference_mode():
        for batch in evaluation_batches(images, batch_size=500, workers=workers, device=device, shared=True):
            said.append(network(batch.images).float(), None)
    return np.concatenate(from_all_ranks(said).blocks)


def scores(head: torch.nn.Module, features: Floats32, *, device: torch.device | str = "cpu") -> Floats32:
    """What a head says of features, some thousand at a time; the head is in evaluation mode afterwards."""
    head.eval()
    with torch.inference_mode():
        blocks = torch.from_numpy(features).split(4096)
        return np.concatenate([head(block.to(device)).float().cpu().numpy() for block in blocks])
