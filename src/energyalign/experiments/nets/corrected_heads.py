"""Heads that correctors put in place of the trained head. Each maps features to scores."""

from __future__ import annotations

from typing import Self

import torch
from torch import nn
from torch.nn import functional as F

from energyalign.experiments.nets.heads import NormalisedHead, directions


class ShiftedHead(nn.Module):  # type: ignore[misc]
    """A head whose logits are shifted by one number per class."""

    shifts: torch.Tensor

    def __init__(self, head: nn.Module, shifts: torch.Tensor) -> None:
        super().__init__()
        self.head = head
        self.register_buffer("shifts", shifts)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.head(features) + self.shifts


class TemperedHead(nn.Module):  # type: ignore[misc]
    """A head whose scores are divided by a temperature."""

    def __init__(self, head: nn.Module, temperature: float) -> None:
        super().__init__()
        self.head, self.temperature = head, temperature

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.head(features) / self.temperature


class _OnFrozenHead(nn.Module):  # type: ignore[misc]
    """Base class of learned corrections of a frozen head."""

    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        self.head = head.requires_grad_(False)

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        self.head.eval()
        return self


class ScaledHead(_OnFrozenHead):
    """A frozen head whose logits are multiplied by one learned number per class (LWS)."""

    def __init__(self, head: nn.Module, n_classes: int) -> None:
        super().__init__(head)
        self.scales = nn.Parameter(torch.ones(n_classes))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.scales * self.head(features)


class CalibratedHead(_OnFrozenHead):
    """A frozen head whose logits z are calibrated in proportion to a learned confidence s(x) (DisAlign).

    ``(1 + s(x) alpha_j) z_j + s(x) beta_j`` with ``s(x) = sigmoid(v . x + c)``. Magnitudes alpha start at 1, margins
    beta at 0, the entries of v at 0.1, and c at a random number. If the head normalises features, x is normalised.
    """

    def __init__(self, head: nn.Module, n_features: int, n_classes: int) -> None:
        super().__init__(head)
        self.confidence = nn.Linear(n_features, 1)
        nn.init.constant_(self.confidence.weight, 0.1)
        self.magnitudes, self.margins = nn.Parameter(torch.ones(n_classes)), nn.Parameter(torch.zeros(n_classes))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        logits = self.head(features)
        seen = self.head.normalised(features) if isinstance(self.head, NormalisedHead) else features
        confidence = self.confidence(seen).sigmoid()
        return (1.0 + confidence * self.magnitudes) * logits + confidence * self.margins


class RepairedHead(nn.Module):  # type: ignore[misc]
    """A head whose largest logits are re-ranked by an offset per class and a term for pairs of classes (REPAIR)."""

    offsets: torch.Tensor
    weights: torch.Tensor
    log_counts: torch.Tensor

    def __init__(
        self, head: nn.Module, offsets: torch.Tensor, weights: torch.Tensor, log_counts: torch.Tensor, n_ranked: int
    ) -> None:
        super().__init__()
        self.head, self.n_ranked = head, n_ranked
        self.register_buffer("offsets", offsets)
        self.register_buffer("weights", weights)
        self.register_buffer("log_counts", log_counts)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return scores. Other classes rank below the re-ranked ones and keep the differences of their logits."""
        logits = self.head(features)
        ranked, largest, pairs = ranked_pairs(logits, self.log_counts, self.n_ranked)
        scores = largest + self.offsets[ranked] + pairs @ self.weights
        behind = logits - largest[:, -1:] + scores.amin(dim=1, keepdim=True)
        return behind.scatter(1, ranked, scores)


def ranked_pairs(
    logits: torch.Tensor, log_counts: torch.Tensor, n_ranked: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the classes of the k largest logits, these logits, and their mean differences from the other k - 1.

    The differences of logit, rank and log training count are in an array of shape (n, k, 3).
    """
    k = min(n_ranked, logits.shape[1])
    largest, ranked = logits.topk(k, dim=1)
    standing = torch.arange(k, 0, -1, device=logits.device).to(logits.dtype).expand_as(largest)
    values = torch.stack([largest, standing, log_counts[ranked]], dim=2)
    return ranked, largest, (values - values.mean(dim=1, keepdim=True)) * (k / max(1, k - 1))


class NewScaledAndShifted(nn.Module):  # type: ignore[misc]
    """A head whose logits of new classes become ``alpha * logit + beta`` with the pair (alpha, beta) (BiC)."""

    pair: torch.Tensor

    def __init__(self, head: nn.Module, pair: torch.Tensor, n_old: int) -> None:
        super().__init__()
        self.head, self.n_old = head, n_old
        self.register_buffer("pair", pair)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return scale_and_shift_new(self.head(features), self.pair, self.n_old)


def scale_and_shift_new(logits: torch.Tensor, pair: torch.Tensor, n_old: int) -> torch.Tensor:
    """Apply the pair (alpha, beta) to the columns of new classes."""
    return torch.cat([logits[:, :n_old], pair[0] * logits[:, n_old:] + pair[1]], dim=1)


class RectifiedHead(nn.Module):  # type: ignore[misc]
    """A head whose scores are multiplied by a factor per class on images that it predicts to be new classes (IL2M).

    The factors of new classes are 1. With `softmax` the scores are softmax outputs instead of logits.
    """

    factors: torch.Tensor

    def __init__(self, head: nn.Module, factors: torch.Tensor, n_old: int, *, softmax: bool) -> None:
        super().__init__()
        self.head, self.n_old, self.softmax = head, n_old, softmax
        self.register_buffer("factors", factors)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        logits = self.head(features)
        scores = logits.softmax(dim=1) if self.softmax else logits
        predicts_new = logits.argmax(dim=1, keepdim=True) >= self.n_old
        return torch.where(predicts_new, scores * self.factors, scores)


class EligibleHead(nn.Module):  # type: ignore[misc]
    """A head under which only new classes and the `n_eligible` best old classes of another head can win (ScaIL)."""

    def __init__(self, head: nn.Module, chooser: nn.Module, n_old: int, n_eligible: int) -> None:
        super().__init__()
        self.head, self.chooser = head, chooser
        self.n_old, self.n_eligible = n_old, min(n_eligible, n_old)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        scores = self.head(features)
        chosen = self.chooser(features)[:, : self.n_old].topk(self.n_eligible, dim=1).indices
        eligible = torch.ones_like(scores, dtype=torch.bool)
        eligible[:, : self.n_old] = False
        eligible.scatter_(1, chosen, True)
        return scores.masked_fill(~eligible, -torch.inf)


class NearestMeans(nn.Module):  # type: ignore[misc]
    """Scores ``-|x / |x| - m_k|^2`` of features x and class means m_k, in the precision of the means.

    A `centre` is subtracted from the features before they are normalised to length one.
    """

    means: torch.Tensor
    centre: torch.Tensor | None

    def __init__(self, means: torch.Tensor, centre: torch.Tensor | None = None) -> None:
        super().__init__()
        self.register_buffer("means", means)
        self.register_buffer("centre", centre)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        # Expand the square: the differences would take n_classes times the memory of the features.
        points = features.to(self.means)
        phi = F.normalize(points) if self.centre is None else directions(points - self.centre)
        return 2.0 * phi @ self.means.T - phi.square().sum(dim=1, keepdim=True) - self.means.square().sum(dim=1)


class WithoutDirection(nn.Module):  # type: ignore[misc]
    """A normalised head; `alpha` times the component along the mean feature is removed from its features (TDE)."""

    mean: torch.Tensor

    def __init__(self, head: NormalisedHead, mean: torch.Tensor, alpha: float) -> None:
        super().__init__()
        self.head, self.alpha = head, alpha
        self.register_buffer("mean", mean)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        normalised = self.head.normalised(features)
        return self.head.compare(remove_direction(normalised, self.mean, self.alpha, self.head.n_parts))


def remove_direction(vectors: torch.Tensor, direction: torch.Tensor, alpha: float, n_parts: int) -> torch.Tensor:
    """Return ``v - alpha (v . d^) d^`` for each of the `n_parts` equal parts of vectors and direction."""
    parts, ahead = vectors.unflatten(-1, (n_parts, -1)), directions(direction.unflatten(-1, (n_parts, -1)))
    along = (parts * ahead).sum(dim=-1, keepdim=True)
    return (parts - alpha * along * ahead).flatten(-2)
