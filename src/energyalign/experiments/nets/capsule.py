"""The capsule head: a cosine head to which long features matter more than short ones."""

from __future__ import annotations

import torch

from energyalign.experiments.nets.normalised import NormalisedHead


class CapsuleHead(NormalisedHead):
    """Logits ``scale * |x| / (1 + |x|) * cos(x, w)``: the features are squashed, to a length between 0 and 1.

    The classifier of OLTR, with a scale of 16 and no bias. Squashing is that of capsule networks but for the square.

    References
    ----------
    Liu et al. 2019, Large-Scale Long-Tailed Recognition in an Open World.
    Sabour, Frosst and Hinton 2017, Dynamic Routing Between Capsules.
    """

    def normalised(self, features: torch.Tensor) -> torch.Tensor:
        """``|x| / (1 + |x|)`` times the direction of x, which is ``x / (1 + |x|)`` and has no trouble with zero."""
        return features / (1.0 + torch.linalg.vector_norm(features, dim=-1, keepdim=True))
