"""A network with two branches that can see a batch each."""

from __future__ import annotations

import torch

from energyalign.experiments.nets.network import Network


class BbnNetwork(Network):
    """A network whose backbone has two branches, which can see a batch each."""

    def forward(
        self, images: torch.Tensor, other: torch.Tensor | None = None, share: float | None = None
    ) -> torch.Tensor:
        """Logits: of images that both branches see, or of pairs ``[2 a f_c(image) ; 2 (1 - a) f_r(other)]``.

        Parameters
        ----------
        images : torch.Tensor
            For the conventional branch, and for the other one as well unless there are `other` images.
        other : torch.Tensor, optional
            As many for the re-balancing branch.
        share : float, optional
            a, the weight of the conventional branch; needed with `other`. Without, both have the factor 1 of a = 1/2.
        """
        if other is None or share is None:
            return super().forward(images)
        # One after the other, as in the original: each batch is normalised by its own statistics.
        conventional = self.backbone.conventional_features(images)
        rebalancing = self.backbone.rebalancing_features(other)
        return self.head(torch.cat([2.0 * share * conventional, 2.0 * (1.0 - share) * rebalancing], dim=1))
