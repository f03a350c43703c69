"""What the heads that normalise features and weights have in common."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import nn
from torch.nn import functional as F

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.nets.registry import DEFAULT_SCALE


class NormalisedHead(nn.Module):  # type: ignore[misc]
    """Logits ``scale / K * sum_k x_k . w_k`` of features x and weights w that were normalised, each cut into K parts.

    A head is told by how it normalises: it says so in `normalised` and `normalised_weight`. What happens between the
    two, such as taking a direction out of the features (TDE), works on all of them alike:
    ``head.compare(change(head.normalised(features)))``.

    Parameters
    ----------
    n_features, n_classes : int
    scale : float
        Logits lie between ``-scale`` and ``scale``.
    learned_scale : bool
        Train the scale as well.

    Attributes
    ----------
    n_parts : int
        K, a property of the kind of head.
    bias : Parameter of shape (n_classes,) or None
        Added after the scale. None at first: these heads are trained without one, and the slot is there for shifts
        to be folded in.
    """

    n_parts: ClassVar[int] = 1
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
