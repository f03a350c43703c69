"""Ridge regression on random projections of the features, in the place of the head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from energyalign.experiments.correctors.base import Corrected, Corrector, RunSetting, refuse_steps

if TYPE_CHECKING:
    from energyalign.experiments.engine.config import EvidencePlan
    from energyalign.experiments.engine.trained import Trained


@dataclass(frozen=True)
class RanPacHead(Corrector):
    """RanPAC with all samples at once; see `RandomProjectionHead`.

    The ridge is chosen on a fifth of the training images. Where classes come in steps it is a learner (``ranpac``),
    which keeps the sums over earlier classes: there is no other way to their images.

    References
    ----------
    McDonnell et al. 2023, RanPAC: Random Projections and Pre-trained Models for Continual Learning.
    """

    n_projected: int = 2000

    def check(self, setting: RunSetting) -> None:
        """In steps it is a learner."""
        refuse_steps(setting, "ranpac", instead="here it is a method of its own, --method ranpac")

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:  # noqa: ARG002
        """The new head."""
        import torch

        from energyalign.experiments.nets.random_projection import RandomProjectionHead
        from energyalign.experiments.train.randomness import seed_torch

        features = torch.from_numpy(trained.train_features)
        seed_torch(trained.config.seed, "ranpac", "projection")
        head = RandomProjectionHead(features.shape[1], trained.n_seen, self.n_projected)
        ridge = head.add(features, torch.from_numpy(trained.train.labels), trained.ground.seed("ridge"))
        return Corrected(trained.with_head(head), details={"ridge": ridge})
