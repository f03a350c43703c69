"""LA-loss: the log prior added to the logits in training."""

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
    """``L = CE(z + tau log pi)`` in training, plain z in the test; tau = 1, for which the minimum is consistent.

    ``pi_j = n_j / N``. The network need not learn what the prior says already, so its own logits are those of balanced
    classes. This is logit adjustment moved from the test into the training. With tau = 1 it is Balanced Softmax too,
    whose softmax ``n_j e^(z_j) / sum_k n_k e^(z_k)`` is that of ``z + log pi``; its meta sampler is not here.

    References
    ----------
    Menon et al. 2021, Long-Tail Learning via Logit Adjustment.
    Ren et al. 2020, Balanced Meta-Softmax for Long-Tailed Visual Recognition.
    """

    name: ClassVar[str] = "la-loss"
    tau: float = 1.0

    def loss(self, setting: Setting) -> Loss:
        """Cross-entropy on adjusted logits."""
        from energyalign.experiments.losses.logit_adjusted import log_prior, logit_adjusted_loss

        log_priors = log_prior(setting.counts)

        def loss(model: torch.nn.Module, batch: Any, _epoch: int) -> torch.Tensor:
            return logit_adjusted_loss(model(batch.images), batch.labels, log_priors, self.tau)

        return loss
