"""Heads: from features to logits, with one weight vector per class. They can grow when new classes come."""

from __future__ import annotations

import copy
import math
from typing import ClassVar, TypeAlias

import torch
from torch import nn
from torch.nn import functional as F

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.nets.registry import DEFAULT_SCALE, HEADS, check_head

LinearHead: TypeAlias = nn.Linear


class NormalisedHead(nn.Module):  # type: ignore[misc]
    """Logits ``scale / K * sum_k x_k . w_k`` of normalised features x and weights w, each divided into K parts.

    Subclasses differ in how they normalise: `normalised` and `normalised_weight`. Changes of normalised features, such
    as removing a direction (TDE), work on all of them: ``head.compare(change(head.normalised(features)))``.

    Logits lie between ``-scale`` and ``scale``, which is trained if `learned_scale` is true. These heads are trained
    without a bias; the attribute exists so that shifts can be folded into it.
    """

    n_parts: ClassVar[int] = 1
    """K."""
    scale: torch.Tensor

    def __init__(
        self, n_features: int, n_classes: int, scale: float = DEFAULT_SCALE, learned_scale: bool = False
    ) -> None:
        super().__init__()
        if not (math.isfinite(scale) and scale > 0):
            raise EnergyAlignError(f"the scale of a cosine head must be a positive number, got {scale}.")
        if n_features % self.n_parts:
            raise EnergyAlignError(f"the number of features must be divisible by {self.n_parts}, got {n_features}.")
        self.in_features, self.out_features = n_features, n_classes  # named as in nn.Linear
        self.weight = nn.Parameter(fresh_rows(n_classes, n_features))
        self.register_parameter("bias", None)
        initial = torch.tensor(float(scale))
        if learned_scale:
            self.scale = nn.Parameter(initial)
        else:
            self.register_buffer("scale", initial)  # a buffer, so that checkpoints hold it

    def normalised(self, features: torch.Tensor) -> torch.Tensor:
        """Normalise features, keeping their shape."""
        raise NotImplementedError

    def normalised_weight(self) -> torch.Tensor:
        """Normalise the weights, by default to length one."""
        return directions(self.weight)

    def compare(self, normalised: torch.Tensor) -> torch.Tensor:
        """Return the logits of features that are normalised already."""
        logits = self.scale / self.n_parts * F.linear(normalised, self.normalised_weight())
        return logits if self.bias is None else logits + self.bias

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.compare(self.normalised(features))

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, scale={float(self.scale):g}"


class CosineHead(NormalisedHead):
    """Logits ``scale * cos(x, w)``, so that no class can win by long weights.

    Features of length zero have no direction; all their logits are zero.

    References
    ----------
    Gidaris and Komodakis 2018, Dynamic Few-Shot Visual Learning without Forgetting.
    """

    def normalised(self, features: torch.Tensor) -> torch.Tensor:
        return directions(features)


class CapsuleHead(NormalisedHead):
    """Logits ``scale * |x| / (1 + |x|) * cos(x, w)``: features are squashed to a length between 0 and 1.

    The classifier of OLTR, with a scale of 16 and no bias. Capsule networks square |x| in the squashing.

    References
    ----------
    Liu et al. 2019, Large-Scale Long-Tailed Recognition in an Open World.
    Sabour, Frosst and Hinton 2017, Dynamic Routing Between Capsules.
    """

    def normalised(self, features: torch.Tensor) -> torch.Tensor:
        """Return ``x / (1 + |x|)``, which also holds for x = 0."""
        return features / (1.0 + torch.linalg.vector_norm(features, dim=-1, keepdim=True))


class CausalNormHead(NormalisedHead):
    """Logits ``scale / K * sum_k x_k / |x_k| . w_k / (|w_k| + gamma)`` over K equal parts of features and weights.

    The original has a scale of 16, K = 2, gamma = 1/32 and no bias. On CIFAR its backbone is BBN's, with one part for
    each branch (`resnet32-bbn`, which the learner ``de-confound`` uses); on other backbones the parts are the two
    halves of the features.

    References
    ----------
    Tang, Huang and Zhang 2020, Long-Tailed Classification by Keeping the Good and Removing the Bad Momentum Causal
    Effect.
    """

    n_parts: ClassVar[int] = 2
    gamma: ClassVar[float] = 1 / 32

    def normalised(self, features: torch.Tensor) -> torch.Tensor:
        return directions(features.unflatten(-1, (self.n_parts, -1))).flatten(-2)

    def normalised_weight(self) -> torch.Tensor:
        parts = self.weight.unflatten(-1, (self.n_parts, -1))
        return (parts / (torch.linalg.vector_norm(parts, dim=-1, keepdim=True) + self.gamma)).flatten(-2)


def make_head(
    name: str, n_features: int, n_classes: int, *, scale: float = DEFAULT_SCALE, learned_scale: bool = False
) -> nn.Module:
    """Make a head by name, with weights from torch's global generator.

    `scale` and `learned_scale` apply to a `NormalisedHead` only.
    """
    check_head(name)
    if n_classes < 1:
        raise EnergyAlignError(f"n_classes must be >= 1, got {n_classes}.")
    return HEADS[name].make(n_features, n_classes, scale=scale, learned_scale=learned_scale)


def grow(head: nn.Module, n_classes: int) -> nn.Module:
    """Return a copy of a linear or normalised head with more classes, `n_classes` in all.

    Logits of old classes do not change by a single bit. Weights of new classes are drawn as in a new head; their bias,
    if there is one, is zero.
    """
    n_new = n_classes - head.out_features
    if n_new < 1:
        raise EnergyAlignError(f"a head of {head.out_features} classes cannot grow to {n_classes}: give more classes.")
    larger = copy.deepcopy(head)
    larger.out_features = n_classes
    larger.weight = _append(head.weight, fresh_rows(n_new, head.weight.shape[1]))
    if head.bias is not None:
        larger.bias = _append(head.bias, torch.zeros(n_new))
    return larger


def _append(old: nn.Parameter, new: torch.Tensor) -> nn.Parameter:
    """Append rows, with the device, precision and `requires_grad` of the old ones."""
    return nn.Parameter(torch.cat([old.detach(), new.to(old)]), requires_grad=old.requires_grad)


def fresh_rows(n_classes: int, n_features: int) -> torch.Tensor:
    """Draw weights uniformly from +-1/sqrt(n_features), as nn.Linear does."""
    bound = 1.0 / math.sqrt(n_features)
    return torch.empty(n_classes, n_features).uniform_(-bound, bound)


def directions(vectors: torch.Tensor) -> torch.Tensor:
    """Normalise vectors to length one; zero stays zero.

    `F.normalize` divides a zero vector by a tiny number, which gives it a huge gradient, or NaN in half precision,
    where the tiny number is zero.
    """
    lengths = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / lengths.masked_fill(lengths == 0, 1.0)
