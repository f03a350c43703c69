"""Heads made of feature statistics: linear discriminant analysis (SLDA) and ridge regression (RanPAC)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from energyalign.experiments.correctors.base import Corrected, Corrector, RunSetting, refuse_steps

if TYPE_CHECKING:
    from energyalign.experiments.engine.config import EvidencePlan
    from energyalign.experiments.engine.trained import Trained


@dataclass(frozen=True)
class Slda(Corrector):
    """Streaming LDA on all samples at once: class means and one shared covariance of the training features.

    `LdaHead` has the formula. It has no prior, so the number of images of a class matters only for the precision of its
    mean. Where classes come in steps it is a learner (``slda``), which keeps the statistics of earlier classes.

    References
    ----------
    Hayes and Kanan 2020, Lifelong Machine Learning with Deep Streaming Linear Discriminant Analysis.
    """

    shrinkage: float = 1e-4

    def check(self, setting: RunSetting) -> None:
        refuse_steps(setting, "slda", instead="here it is a method of its own, --method slda")

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:  # noqa: ARG002
        import torch

        from energyalign.experiments.nets.lda import LdaHead

        features = torch.from_numpy(trained.train_features)
        head = LdaHead(features.shape[1], trained.n_seen, self.shrinkage)
        head.add(features, torch.from_numpy(trained.train.labels))
        return Corrected(trained.with_head(head))


@dataclass(frozen=True)
class RanPacHead(Corrector):
    """RanPAC on all samples at once; `RandomProjectionHead` has the formula.

    The ridge is chosen on a fifth of the training images. Where classes come in steps it is a learner (``ranpac``),
    which keeps the sums over earlier classes.

    References
    ----------
    McDonnell et al. 2023, RanPAC: Random Projections and Pre-trained Models for Continual Learning.
    """

    n_projected: int = 2000

    def check(self, setting: RunSetting) -> None:
        refuse_steps(setting, "ranpac", instead="here it is a method of its own, --method ranpac")

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:  # noqa: ARG002
        import torch

        from energyalign.experiments.nets.random_projection import RandomProjectionHead
        from energyalign.experiments.train.randomness import seed_torch

        features = torch.from_numpy(trained.train_features)
        seed_torch(trained.config.seed, "ranpac", "projection")
        head = RandomProjectionHead(features.shape[1], trained.n_seen, self.n_projected)
        ridge = head.add(features, torch.from_numpy(trained.train.labels), trained.ground.seed("ridge"))
        return Corrected(trained.with_head(head), details={"ridge": ridge})
