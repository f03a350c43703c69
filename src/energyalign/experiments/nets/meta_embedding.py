"""OLTR's memory: features enriched from the centroids of the classes."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from energyalign.experiments.nets.network import Network


class MetaEmbedding(nn.Module):  # type: ignore[misc]
    """From features x to ``reach / min_j |x - c_j| * (x + tanh(W_s x) * v)`` with ``v = softmax(W_h x) @ c``.

    An image far from every centroid c_j gets a short embedding, and so a flat posterior under a capsule head. As in
    the original both maps have a bias, and the centroids are taken as given here: they learn from `centroid_loss`
    alone.

    Parameters
    ----------
    centroids : tensor of shape (n_classes, n_features)
        At first: the class means of the features.
    reach : float
        The distance to the nearest centroid at which an embedding keeps its length.

    References
    ----------
    Liu et al. 2019, Large-Scale Long-Tailed Recognition in an Open World.
    """

    def __init__(self, centroids: torch.Tensor, reach: float = 10.0) -> None:
        super().__init__()
        n_classes, n_features = centroids.shape
        self.reach = reach
        self.centroids = nn.Parameter(centroids.clone())
        self.recall = nn.Linear(n_features, n_classes)
        self.select = nn.Linear(n_features, n_features)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Embeddings, of the shape of the features."""
        centroids = self.centroids.detach()
        # An image that is its own centroid, the only one of its class, must not divide by zero.
        nearest = _distances(features, centroids).amin(dim=1, keepdim=True).clamp_min(1e-6 * self.reach)
        recalled = F.softmax(self.recall(features), dim=1) @ centroids
        enriched = features + torch.tanh(self.select(features)) * recalled
        return (self.reach / nearest).to(enriched.dtype) * enriched


def centroid_loss(
    features: torch.Tensor, labels: torch.Tensor, centroids: torch.Tensor, *, margin: float, repel: float
) -> torch.Tensor:
    """``|x - c_y|^2 / 2 + repel * max(0, margin - d)``, the mean over the batch.

    d is the mean squared distance to the centroids of the other classes, over the batch as well. The original divides
    its sum by all classes, that of the image included.
    """
    squared = _distances(features, centroids).square()
    own = F.one_hot(labels, len(centroids)).bool()
    others = squared.masked_fill(own, 0.0).sum() / max(1, (~own).sum())
    return squared[own].mean() / 2 + repel * F.relu(margin - others)


def _distances(features: torch.Tensor, centroids: torch.Tensor) -> torch.Tensor:
    """Euclidean, (n, n_classes), in single precision; the way by matrix products would lose small ones."""
    return torch.cdist(features.float(), centroids.float(), compute_mode="donot_use_mm_for_euclid_dist")


class OltrNetwork(Network):
    """Images to features to embeddings to logits; with labels, the loss of the batch."""

    def __init__(
        self, backbone: nn.Module, memory: MetaEmbedding, head: nn.Module, *, weight: float, repel: float, margin: float
    ) -> None:
        super().__init__(backbone, head)
        self.memory = memory
        self.weight, self.repel, self.margin = weight, repel, margin

    def forward(self, images: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        """Logits, one column per class, or the loss."""
        features = self.features(images)
        logits = self.head(self.memory(features))
        if labels is None:
            return logits
        near = centroid_loss(features, labels, self.memory.centroids, margin=self.margin, repel=self.repel)
        return F.cross_entropy(logits, labels) + self.weight * near
