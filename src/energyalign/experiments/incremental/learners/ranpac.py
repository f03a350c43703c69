"""RanPAC: ridge regression on random projections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from energyalign.experiments.incremental.learners.statistics import HeadOfStatistics

if TYPE_CHECKING:
    import torch

    from energyalign.experiments.incremental.step import Step


@dataclass(frozen=True)
class RanPac(HeadOfStatistics):
    """Features through a random layer with ReLU; class prototypes decorrelated by the Gram matrix of all samples.

    See `RandomProjectionHead` for the formula and `HeadOfStatistics` for the backbone. As in the original, the ridge is
    chosen anew in every step on a fifth of its new samples, and is that of the weights of all classes.

    The original adapts a pre-trained transformer to the first step by a few added parameters; here the backbone is
    what the cell has, trained whole in the first step, or frozen features. It has 10,000 random features, whose Gram
    matrix would be 800 MB in every step; here they are fewer.

    Attributes
    ----------
    n_projected : int
        Random features. Fewer than the features of the backbone are of no use.

    References
    ----------
    McDonnell et al. 2023, RanPAC: Random Projections and Pre-trained Models for Continual Learning.
    """

    name: ClassVar[str] = "ranpac"

    n_projected: int = 2000

    def make_head(self, n_features: int, n_classes: int) -> Any:
        """Without samples; its projection is drawn."""
        from energyalign.experiments.nets.random_projection import RandomProjectionHead

        return RandomProjectionHead(n_features, n_classes, self.n_projected)

    def add(self, step: Step, head: Any, features: torch.Tensor, labels: torch.Tensor) -> None:
        """Into the sums."""
        ridge = head.add(features, labels, step.seed("ridge"))
        step.reporter.note(f"Ridge {ridge:g}, chosen on a fifth of the new samples.")
