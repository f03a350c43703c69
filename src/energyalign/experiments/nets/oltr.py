"""OLTR: features enriched from class centroids, and modulated attention before the pooling."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.nets.network import Network

_POOLING = (nn.AdaptiveAvgPool2d, nn.AvgPool2d, nn.AdaptiveMaxPool2d)


class MetaEmbedding(nn.Module):  # type: ignore[misc]
    """Embeddings ``reach / min_j |x - c_j| * (x + tanh(W_s x) * v)`` of features x, with ``v = softmax(W_h x) @ c``.

    An image far from every centroid c_j gets a short embedding, and so a flat posterior under a capsule head. As in
    the original both maps have a bias, and centroids learn only from `centroid_loss`.

    The centroids, of shape (n_classes, n_features), start at the class means of the features. At a distance of `reach`
    to the nearest centroid an embedding keeps its length.

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
        centroids = self.centroids.detach()
        # The only image of a class is its own centroid: do not divide by zero.
        nearest = _distances(features, centroids).amin(dim=1, keepdim=True).clamp_min(1e-6 * self.reach)
        recalled = F.softmax(self.recall(features), dim=1) @ centroids
        enriched = features + torch.tanh(self.select(features)) * recalled
        return (self.reach / nearest).to(enriched.dtype) * enriched


def centroid_loss(
    features: torch.Tensor, labels: torch.Tensor, centroids: torch.Tensor, *, margin: float, repel: float
) -> torch.Tensor:
    """Return the batch mean of ``|x - c_y|^2 / 2 + repel * max(0, margin - d)``.

    d is the mean squared distance to the centroids of other classes, over the whole batch. The original divides its sum
    by the number of all classes.
    """
    squared = _distances(features, centroids).square()
    own = F.one_hot(labels, len(centroids)).bool()
    others = squared.masked_fill(own, 0.0).sum() / max(1, (~own).sum())
    return squared[own].mean() / 2 + repel * F.relu(margin - others)


def _distances(features: torch.Tensor, centroids: torch.Tensor) -> torch.Tensor:
    """Return Euclidean distances, (n, n_classes), in single precision; matrix products would lose small ones."""
    return torch.cdist(features.float(), centroids.float(), compute_mode="donot_use_mm_for_euclid_dist")


class OltrNetwork(Network):
    """A network with embeddings between features and head. With labels it returns the loss of the batch."""

    def __init__(
        self, backbone: nn.Module, memory: MetaEmbedding, head: nn.Module, *, weight: float, repel: float, margin: float
    ) -> None:
        super().__init__(backbone, head)
        self.memory = memory
        self.weight, self.repel, self.margin = weight, repel, margin

    def forward(self, images: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        features = self.features(images)
        logits = self.head(self.memory(features))
        if labels is None:
            return logits
        near = centroid_loss(features, labels, self.memory.centroids, margin=self.margin, repel=self.repel)
        return F.cross_entropy(logits, labels) + self.weight * near


class ModulatedAttention(nn.Module):  # type: ignore[misc]
    """Self-attention over the pixels of the maps, weighted pixel by pixel and added to the maps.

    ``f + m(f) * W softmax(theta(f)^T phi(f)) g(f)`` with 1x1 convolutions theta, phi and g to half as many channels, W
    back to all of them, and m the softmax over pixels of a linear map of f. W starts at zero, so that a new layer
    changes nothing.

    References
    ----------
    Liu et al. 2019, Large-Scale Long-Tailed Recognition in an Open World.
    """

    def __init__(self, n_channels: int, height: int, width: int) -> None:
        super().__init__()
        n_inner = max(1, n_channels // 2)
        self.queries, self.keys, self.values = (_convolution(n_channels, n_inner) for _ in range(3))
        self.back = nn.Conv2d(n_inner, n_channels, 1, bias=False)
        nn.init.zeros_(self.back.weight)
        self.where = nn.Linear(n_channels * height * width, height * width)

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        queries, keys, values = (part(maps).flatten(2) for part in (self.queries, self.keys, self.values))
        similarity = F.softmax(queries.transpose(1, 2) @ keys, dim=-1)
        attended = (similarity @ values.transpose(1, 2)).transpose(1, 2)
        here = F.softmax(self.where(maps.flatten(1)), dim=1)
        return maps + here.unflatten(1, (1, *maps.shape[2:])) * self.back(attended.unflatten(2, maps.shape[2:]))


def add_modulated_attention(backbone: nn.Module, image: torch.Tensor) -> None:
    """Add a layer, in place, after each part of the backbone whose maps are averaged to features: two in BBN's network.

    `image` is a batch of one image of the size that the backbone will see, on its device.
    """
    for name, maps in _last_maps(backbone, image).items():
        layer = ModulatedAttention(*maps.shape[1:]).to(maps)
        setattr(backbone, name, nn.Sequential(getattr(backbone, name), layer))


def _last_maps(backbone: nn.Module, image: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the maps that only pooling reads, by the name of the part that computed them."""
    loose: dict[str, torch.Tensor] = {}

    def follow(name: str, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        for before in [key for key, maps in loose.items() if any(maps is given for given in inputs)]:
            del loose[before]
        if output.ndim == 4:
            loose[name] = output

    hooks = [
        part.register_forward_hook(lambda _part, inputs, output, name=name: follow(name, inputs, output))
        for name, part in backbone.named_children()
        if not isinstance(part, _POOLING)
    ]
    training = backbone.training
    try:
        with torch.no_grad():
            backbone.eval()(image)
    finally:
        backbone.train(training)
        for hook in hooks:
            hook.remove()
    if not loose:
        raise EnergyAlignError(
            f"{type(backbone).__name__} has no maps that it averages to features, and modulated attention needs them: "
            "choose another backbone, or another method than OLTR."
        )
    return loose


def _convolution(n_channels_in: int, n_channels_out: int) -> nn.Conv2d:
    convolution = nn.Conv2d(n_channels_in, n_channels_out, 1)
    nn.init.kaiming_normal_(convolution.weight)
    nn.init.zeros_(convolution.bias)
    return convolution
