"""LA-loss+LDAM: the log prior and LDAM's margins together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from energyalign.experiments.longtail.learners.cross_entropy import CrossEntropy

if TYPE_CHECKING:
    import torch

    from energyalign.experiments.longtail.experiment import Setting
    from energyalign.experiments.train.loop import Loss


@dataclass(frozen=True)
class LogitAdjustedLdam(CrossEntropy):
    """The pairwise margin loss ``log(1 + sum_(j != y) e^(D_yj + z_j - z_y))``, its margins the sum of two.

    ``D_yj = tau log(pi_j / pi_y) + 30 D_y`` with LDAM's ``D_y = 0.5 n_y^(-1/4) / max_k n_k^(-1/4)``. That is
    cross-entropy on ``z_j + tau log pi_j``, less ``30 D_y`` for the true class. Of the second margin ("adaptive") only
    its shape ``pi_y^(-1/4)`` is sure; our decision is to take all of LDAM's, its size and its logits ``z = 30 cos``
    too. There is no re-weighting, and the schedule is that of the cell.

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
        """Cross-entropy on adjusted logits, the true class less its margin."""
        from energyalign.experiments.losses.ldam import ldam_margins, with_margins
        from energyalign.experiments.losses.logit_adjusted import log_prior, logit_adjusted_loss

        log_priors = log_prior(setting.counts)
        margins = setting.config.scale * ldam_margins(setting.counts, self.largest_margin)

        def loss(model: torch.nn.Module, batch: Any, _epoch: int) -> torch.Tensor:
            logits = with_margins(model(batch.images), batch.labels, margins)
            return logit_adjusted_loss(logits, batch.labels, log_priors, self.tau)

        return loss
