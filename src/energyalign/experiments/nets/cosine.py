"""The cosine head."""

from __future__ import annotations

import torch

from energyalign.experiments.nets.normalised import NormalisedHead, directions


class CosineHead(NormalisedHead):
    """Logits that are scaled cosines: ``scale * cos(features, weight of the class)``.

    The length of neither features nor weights matters, so that no class can win by long weights. Features of
    length zero have no direction; all their logits are zero.

    References
    ----------
    Gidaris and Komodakis 2018, Dynamic Few-Shot Visual Learning without Forgetting.
    """

    def normalised(self, features: torch.Tensor) -> torch.Tensor:
        """Features of length one."""
        return directions(features)
