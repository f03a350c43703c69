"""The causal-norm head of De-confound: cosines of parts of the features, in which short weights count less."""

from __future__ import annotations

from typing import ClassVar

import torch

from energyalign.experiments.nets.normalised import NormalisedHead, directions


class CausalNormHead(NormalisedHead):
    """Logits ``scale / K * sum_k x_k / |x_k| . w_k / (|w_k| + gamma)`` over K equal parts of features and weights.

    The original has a scale of 16, K = 2, gamma = 1/32 and no bias. On CIFAR its backbone is BBN's, with a part for
    each branch (`resnet32-bbn`, which the learner ``de-confound`` brings); on any other backbone the parts are the two
    halves of the features.

    Parameters
    ----------
    n_features : int
        Even.
    n_classes : int
    scale, learned_scale
        As for `NormalisedHead`.

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
