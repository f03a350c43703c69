"""LADE: the logit-adjusted loss, and logits that are log ratios of densities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from energyalign.experiments.longtail.learners.cross_entropy import CrossEntropy

if TYPE_CHECKING:
    import torch

    from energyalign.experiments.longtail.experiment import Setting
    from energyalign.experiments.train.loop import Loss


@dataclass(frozen=True)
class Lade(CrossEntropy):
    """``L = CE(z + log pi) + weight * R``, with R that of `lade_regulariser`; plain z in the test, of balanced classes.

    Weight and penalty are those of the released settings: 0.1 and 0.1, on iNaturalist 0.05 and 0.5. So is R, in which
    the ratio of balanced to training frequency is that of the logit's class. The row has a linear head, as the
    original. Batch size, learning rate and network are the cell's; the original has batches of 256 and a rate of 0.2 on
    CIFAR, and there BBN's network with 128 features. Each process takes R over its own part of a batch.

    Attributes
    ----------
    weight, penalty : float
        Of R, and of the square in it.
    inaturalist_weight, inaturalist_penalty : float
        The same on iNaturalist.

    References
    ----------
    Hong et al. 2021, Disentangling Label Distribution for Long-Tailed Visual Recognition.
    """

    name: ClassVar[str] = "lade"
    weight: float = 0.1
    penalty: float = 0.1
    inaturalist_weight: float = 0.05
    inaturalist_penalty: float = 0.5

    def loss(self, setting: Setting) -> Loss:
        """The logit-adjusted loss and the regulariser."""
        from energyalign.experiments.losses.lade import lade_regulariser
        from energyalign.experiments.losses.logit_adjusted import log_prior, logit_adjusted_loss

        log_priors = log_prior(setting.counts)
        prior = log_priors.exp()
        weight, penalty = self.weight, self.penalty
        if setting.config.dataset == "inaturalist18":
            weight, penalty = self.inaturalist_weight, self.inaturalist_penalty

        def loss(model: torch.nn.Module, batch: Any, _epoch: int) -> torch.Tensor:
            logits = model(batch.images)
            adjusted = logit_adjusted_loss(logits, batch.labels, log_priors, tau=1.0)
            return adjusted + weight * lade_regulariser(logits, batch.labels, prior, penalty)

        return loss
