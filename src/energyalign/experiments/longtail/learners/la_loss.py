"""LA-loss: the log prior is added to the logits in training; alone, or with LDAM's margins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from energyalign.experiments.longtail.learners.cross_entropy import CrossEntropy

if TYPE_CHECKING:
    import torch

    from energyalign.experiments.longtail.experiment import Setting
    from energyalign.experiments.train.loop import Loss


@dataclass(frozen=True)
class LogitAdjustedLoss(CrossEntropy):
    """``L = CE(z + tau log pi)`` in training, with ``pi_j = n_j / N``; plain z at test time.

    The prior explains the imbalance, so the network's own logits become logits for balanced classes: logit
    adjustment, moved from test time to training. tau = 1 is Fisher consistent for balanced error. It is also Balanced
    Softmax, ``n_j e^(z_j) / sum_k n_k e^(z_k)``, without its meta sampler.

    References
    ----------
    Menon et al. 2021, Long-Tail Learning via Logit Adjustment.
    Ren et al. 2020, Balanced Meta-Softmax for Long-Tailed Visual Recognition.
    """

    name: ClassVar[str] = "la-loss"
    tau: float = 1.0

    def loss(self, setting: Setting) -> Loss:
        from energyalign.experiments.losses.logit_adjusted import log_prior, logit_adjusted_loss

        log_priors = log_prior(setting.counts)

        def loss(model: torch.nn.Module, batch: Any, _epoch: int) -> torch.Tensor:
            return logit_adjusted_loss(model(batch.images), batch.labels, log_priors, self.tau)

        return loss


@dataclass(frozen=True)
class LogitAdjustedLdam(CrossEntropy):
    """The pairwise margin loss ``log(1 + sum_(j != y) e^(D_yj + z_j - z_y))`` with the sum of two margins.

    ``D_yj = tau log(pi_j / pi_y) + 30 D_y`` with LDAM's ``D_y = 0.5 n_y^(-1/4) / max_k n_k^(-1/4)``. This equals
    cross-entropy on ``z_j + tau log pi_j``, less ``30 D_y`` for the true class. The paper specifies only the shape of
    its second ("adaptive") margin, ``pi_y^(-1/4)``; taking LDAM's size and logits ``z = 30 cos`` is our decision. There
    is no re-weighting, and the schedule comes from the cell.

    References
    ----------
    Menon et al. 2021, Long-Tail Learning via Logit Adjustment.
    Cao et al. 2019, Learning Imbalanced Datasets with Label-Distribution-Aware Margin Loss.
    """

    name: ClassVar[str] = "la-loss-ldam"
    head: ClassVar[str | None] = "cosine"
    scale: ClassVar[float | None] = 30.0
    tau: float = 1.0
    largest_margin: float = 0.5

    def loss(self, setting: Setting) -> Loss:
        from energyalign.experiments.losses.ldam import ldam_margins, with_margins
        from energyalign.experiments.losses.logit_adjusted import log_prior, logit_adjusted_loss

        log_priors = log_prior(setting.counts)
        margins = setting.config.scale * ldam_margins(setting.counts, self.largest_margin)

        def loss(model: torch.nn.Module, batch: Any, _epoch: int) -> torch.Tensor:
            logits = with_margins(model(batch.images), batch.labels, margins)
            return logit_adjusted_loss(logits, batch.labels, log_priors, self.tau)

        return loss
