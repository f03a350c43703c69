"""Streaming linear discriminant analysis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from energyalign.experiments.incremental.learners.statistics import HeadOfStatistics

if TYPE_CHECKING:
    import torch

    from energyalign.experiments.incremental.step import Step


@dataclass(frozen=True)
class StreamingLda(HeadOfStatistics):
    """Running class means and one covariance of all classes, on features that are frozen after the first step.

    See `LdaHead` for the formula and `HeadOfStatistics` for the backbone. The original too trains its backbone on the
    classes of a first part, or takes a pre-trained one, and needs no exemplars.

    Two things are otherwise. The covariance is the exact scatter around the means of the classes, the same in whatever
    order samples come; the original's recursion takes the first sample of a class from zero, not from its mean. And the
    covariance of the first step is estimated as that of the others, where the original has the OAS estimate; the
    shrinkage is on both.

    Attributes
    ----------
    shrinkage : float
        Weight of the identity in the covariance.

    References
    ----------
    Hayes and Kanan 2020, Lifelong Machine Learning with Deep Streaming Linear Discriminant Analysis.
    """

    name: ClassVar[str] = "slda"

    shrinkage: float = 1e-4

    def make_head(self, n_features: int, n_classes: int) -> Any:
        """Without samples."""
        from energyalign.experiments.nets.lda import LdaHead

        return LdaHead(n_features, n_classes, self.shrinkage)

    def add(self, step: Step, head: Any, features: torch.Tensor, labels: torch.Tensor) -> None:  # noqa: ARG002
        """Into means and covariance."""
        head.add(features, labels)
