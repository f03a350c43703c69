"""A network that can mix the features of a batch."""

from __future__ import annotations

import torch

from energyalign.experiments.losses.mixup import Mixture, mixed
from energyalign.experiments.nets.network import Network


class MixingNetwork(Network):
    """A network that can mix the features of a batch before the head sees them."""

    def forward(self, images: torch.Tensor, mixture: Mixture | None = None) -> torch.Tensor:
        """Logits; of mixed features if a mixture is given."""
        features = self.features(images)
        return self.head(features if mixture is None else mixed(features, mixture))
