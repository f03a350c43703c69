"""Linear discriminant analysis of the features, in the place of the head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from energyalign.experiments.correctors.base import Corrected, Corrector, RunSetting, refuse_steps

if TYPE_CHECKING:
    from energyalign.experiments.engine.config import EvidencePlan
    from energyalign.experiments.engine.trained import Trained


@dataclass(frozen=True)
class Slda(Corrector):
    """Streaming LDA with all samples at once: class means and one covariance of all training features; see `LdaHead`.

    No prior enters, so that the number of images of a class plays no part but in how well its mean is known. Where
    classes come in steps it is a learner (``slda``), which keeps the statistics of earlier classes: there is no other
    way to their images.

    References
    ----------
    Hayes and Kanan 2020, Lifelong Machine Learning with Deep Streaming Linear Discriminant Analysis.
    """

    shrinkage: float = 1e-4

    def check(self, setting: RunSetting) -> None:
        """In steps it is a learner."""
        refuse_steps(setting, "slda", instead="here it is a method of its own, --method slda")

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:  # noqa: ARG002
        """The new head."""
        import torch

        from energyalign.experiments.nets.lda import LdaHead

        features = torch.from_numpy(trained.train_features)
        head = LdaHead(features.shape[1], trained.n_seen, self.shrinkage)
        head.add(features, torch.from_numpy(trained.train.labels))
        return Corrected(trained.with_head(head))
