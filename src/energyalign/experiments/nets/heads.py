"""Heads: from features to logits, one weight vector per class; they can grow when new classes come."""

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
    """Logits ``scale / K * sum_k x_k . w_k`` of features x and weights w that were normalised, each cut into K parts.

    Heads differ in how they normalise: `normalised` and `normalised_weight`. What happens between the
    two, such as taking a direction out of the features (TDE), works on all of them alike:
    ``head.compare(change(head.normalised(features)))``.

    Logits lie between ``-scale`` and ``scale``, which is trained as well if it is `learned_scale`. These heads are
    trained without a bias: it is None at first, and there for shifts to be folded in.
    """

    n_parts: ClassVar[int] = 1
    """K, a property of the kind of head."""
    scale: torch.Tensor

    def __init__(
        self, n_features: int, n_classes: int, scale: float = DEFAULT_SCALE, learned_scale: bool = False
    ) -> None:
        super().__init__()
        if not (math.isfinite(scale) and scale > 0):
            raise EnergyAlignError(f"the scale of a cosine head must be a positive number, not {scale}.")
        if n_features % self.n_parts:
            raise EnergyAlignError(f"{n_features} features cannot be cut into {self.n_parts} equal parts.")
        self.in_features, self.out_features = n_features, n_classes  # called as in nn.Linear
        self.weight = nn.Parameter(fresh_rows(n_classes, n_features))
        self.register_parameter("bias", None)
        initial = torch.tensor(float(scale))
        if learned_scale:
            self.scale = nn.Parameter(initial)
        else:
            self.register_buffer("scale", initial)  # not a plain number, so that a checkpoint brings its scale along

    def normalised(self, features: torch.Tensor) -> torch.Tensor:
        """Features as they are compared with the weights, of the same shape."""
        raise NotImplementedError

    def normalised_weight(self) -> torch.Tensor:
        """Weights of length one, unless the head has another way."""
        return directions(self.weight)

    def compare(self, normalised: torch.Tensor) -> torch.Tensor:
        """Logits of shape (n, n_classes) for features that are normalised already."""
        logits = self.scale / self.n_parts * F.linear(normalised, self.normalised_weight())
        return logits if self.bias is None else logits + self.bias

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Logits of shape (n, n_classes) for features of shape (n, n_features)."""
        return self.compare(self.normalised(features))

    def extra_repr(self) -> str:
        """What `print` shows between the brackets."""
        return f"in_features={self.in_features}, out_features={self.out_features}, scale={float(self.scale):g}"


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


class CausalNormHead(NormalisedHead):
    """Logits ``scale / K * sum_k x_k / |x_k| . w_k / (|w_k| + gamma)`` over K equal parts of features and weights.

    The original has a scale of 16, K = 2, gamma = 1/32 and no bias. On CIFAR its backbone is BBN's, with a part for
    each branch (`resnet32-bbn`, which the learner ``de-confound`` brings); on any other backbone the parts are the two
    halves of the features.

    References
    ----------
    Tang, Huang and Zhang 2020, Long-Tailed Classification by Keeping the Good and Removing the Bad Momentum Causal
    Effect.
    """

    n_parts: ClassVar[int] = 2
    gamma: ClassVar[float] = 1 / 32

    def normalised(self, features: torch.Tensor) -> torch.Tensor:
        """Each part of length one."""
        return directions(features.unflatten(-1, (self.n_parts, -1))).flatten(-2)

    def normalised_weight(self) -> torch.Tensor:
        """Each part of a length below one, the shorter it was the more so."""
        parts = self.weight.unflatten(-1, (self.n_parts, -1))
        return (parts / (torch.linalg.vector_norm(parts, dim=-1, keepdim=True) + self.gamma)).flatten(-2)


def make_head(
    name: str, n_features: int, n_classes: int, *, scale: float = DEFAULT_SCALE, learned_scale: bool = False
) -> nn.Module:
    """The head of that name, its weights drawn from torch's global generator.

    `scale` and `learned_scale` are those of a `NormalisedHead` and concern no other.
    """
    check_head(name)
    if n_classes < 1:
        raise EnergyAlignError(f"a head needs at least one class, not {n_classes}.")
    return HEADS[name].make(n_features, n_classes, scale=scale, learned_scale=learned_scale)


def grown(head: nn.Module, n_classes: int) -> nn.Module:
    """A head with more classes, whose numbers for the old ones are those of `head`, bit for bit.

    Weights of new classes are drawn as those of a fresh head; where there is a bias it is zero for them, so that
    nothing but their weights speaks for or against them. The scale, learned or not, stays.
    `head`, linear or normalised, is left as it is; `n_classes` are old and new ones together.
    """
    n_new = n_classes - head.out_features
    if n_new < 1:
        raise EnergyAlignError(f"a head of {head.out_features} classes cannot grow to {n_classes}: give more classes.")
    larger = copy.deepcopy(head)
    larger.out_features = n_classes
    larger.weight = _extended(head.weight, fresh_rows(n_new, head.weight.shape[1]))
    if head.bias is not None:
        larger.bias = _extended(head.bias, torch.zeros(n_new))
    return larger


def _extended(old: nn.Parameter, new: torch.Tensor) -> nn.Parameter:
    """Rows below rows; on the device, in the precision and as trainable as the old ones."""
    return nn.Parameter(torch.cat([old.detach(), new.to(old)]), requires_grad=old.requires_grad)


def fresh_rows(n_classes: int, n_features: int) -> torch.Tensor:
    """Uniform in +-1/sqrt(n_features): what nn.Linear draws, and the convention for normalised heads too."""
    bound = 1.0 / math.sqrt(n_features)
    return torch.empty(n_classes, n_features).uniform_(-bound, bound)


def directions(vectors: torch.Tensor) -> torch.Tensor:
    """Vectors of length one; zero stays zero.

    Dividing a zero vector by a tiny number, as F.normalize does, would give it a huge gradient (and NaN in half
    precision, where the tiny number is zero).
    """
    lengths = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / lengths.masked_fill(lengths == 0, 1.0)
