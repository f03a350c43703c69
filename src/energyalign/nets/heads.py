"""Heads: from features to logits, one weight vector per class; they can grow when new classes come."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
from torch import nn
from torch.nn import functional as F

from energyalign.core.errors import EnergyAlignError

DEFAULT_SCALE = 16.0  # of De-confound and OLTR; the LDAM lineage has 30

LinearHead: TypeAlias = nn.Linear


class CosineHead(nn.Module):  # type: ignore[misc]
    """Logits that are scaled cosines: ``scale * cos(features, weight of the class)``.

    The length of neither features nor weights matters, so that no class can win by long weights. Features of
    length zero have no direction; all their logits are zero.

    Parameters
    ----------
    n_features, n_classes : int
    scale : float
        Logits lie between ``-scale`` and ``scale``.
    learned_scale : bool
        Train the scale as well.

    Attributes
    ----------
    bias : Parameter of shape (n_classes,) or None
        Added after the scale. None at first: the cosine head is trained without one, and the slot is there for
        shifts to be folded in.

    References
    ----------
    Gidaris and Komodakis 2018, Dynamic Few-Shot Visual Learning without Forgetting.
    """

    scale: torch.Tensor

    def __init__(
        self, n_features: int, n_classes: int, scale: float = DEFAULT_SCALE, learned_scale: bool = False
    ) -> None:
        super().__init__()
        if not (math.isfinite(scale) and scale > 0):
            raise EnergyAlignError(f"the scale of a cosine head must be a positive number, not {scale}.")
        self.in_features, self.out_features = n_features, n_classes  # called as in nn.Linear
        self.weight = nn.Parameter(_fresh_rows(n_classes, n_features))
        self.register_parameter("bias", None)
        initial = torch.tensor(float(scale))
        if learned_scale:
            self.scale = nn.Parameter(initial)
        else:
            self.register_buffer("scale", initial)  # not a plain number, so that a checkpoint brings its scale along

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Logits of shape (n, n_classes) for features of shape (n, n_features)."""
        logits = self.scale * F.linear(_directions(features), _directions(self.weight))
        return logits if self.bias is None else logits + self.bias

    def extra_repr(self) -> str:
        """What `print` shows between the brackets."""
        return f"in_features={self.in_features}, out_features={self.out_features}, scale={float(self.scale):g}"


class HeadEntry(NamedTuple):
    """A row of the registry."""

    factory: Callable[..., nn.Module]
    description: str


def _linear(n_features: int, n_classes: int, **_only_for_cosine: object) -> nn.Module:
    return LinearHead(n_features, n_classes)


HEADS: dict[str, HeadEntry] = {
    "linear": HeadEntry(_linear, "inner product with the weights of the class, plus a bias"),
    "cosine": HeadEntry(CosineHead, "scaled cosine of the angle to the weights of the class, no bias"),
}


def make_head(
    name: str, n_features: int, n_classes: int, *, scale: float = DEFAULT_SCALE, learned_scale: bool = False
) -> nn.Module:
    """The head of that name, its weights drawn from torch's global generator.

    `scale` and `learned_scale` are those of `CosineHead` and concern no other.
    """
    if name not in HEADS:
        raise EnergyAlignError(f"unknown head {name!r}: choose {', '.join(HEADS)}.")
    if n_classes < 1:
        raise EnergyAlignError(f"a head needs at least one class, not {n_classes}.")
    return HEADS[name].factory(n_features, n_classes, scale=scale, learned_scale=learned_scale)


def grown(head: nn.Module, n_classes: int) -> nn.Module:
    """A head with more classes, whose numbers for the old ones are those of `head`, bit for bit.

    Weights of new classes are drawn as those of a fresh head; where there is a bias it is zero for them, so that
    nothing but their weights speaks for or against them. The scale, learned or not, stays.

    Parameters
    ----------
    head : LinearHead or CosineHead
        Is left as it is.
    n_classes : int
        Old and new classes together.
    """
    n_new = n_classes - head.out_features
    if n_new < 1:
        raise EnergyAlignError(f"a head of {head.out_features} classes cannot grow to {n_classes}: give more classes.")
    larger = copy.deepcopy(head)
    larger.out_features = n_classes
    larger.weight = _extended(head.weight, _fresh_rows(n_new, head.in_features))
    if head.bias is not None:
        larger.bias = _extended(head.bias, torch.zeros(n_new))
    return larger


def _extended(old: nn.Parameter, new: torch.Tensor) -> nn.Parameter:
    """Rows below rows; on the device, in the precision and as trainable as the old ones."""
    return nn.Parameter(torch.cat([old.detach(), new.to(old)]), requires_grad=old.requires_grad)


def _fresh_rows(n_classes: int, n_features: int) -> torch.Tensor:
    """Uniform in +-1/sqrt(n_features): what nn.Linear draws, and the convention for cosine heads too."""
    bound = 1.0 / math.sqrt(n_features)
    return torch.empty(n_classes, n_features).uniform_(-bound, bound)


def _directions(vectors: torch.Tensor) -> torch.Tensor:
    """Vectors of length one; zero stays zero.

    Dividing a zero vector by a tiny number, as F.normalize does, would give it a huge gradient (and NaN in half
    precision, where the tiny number is zero).
    """
    lengths = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / lengths.masked_fill(lengths == 0, 1.0)
