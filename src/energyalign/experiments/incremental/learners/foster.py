"""FOSTER: a second backbone learns what the network cannot tell apart, then both are distilled into one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from energyalign.experiments.incremental.learners.balanced import divide_epochs
from energyalign.experiments.incremental.learners.der import ExpandingLearner

if TYPE_CHECKING:
    import torch

    from energyalign.experiments.incremental.step import Step
    from energyalign.experiments.nets.network import Network
    from energyalign.experiments.train.loop import Loss

STAGE_1, STAGE_2 = 170, 130  # epochs of the original


@dataclass(frozen=True)
class Foster(ExpandingLearner):
    """Boosting, ``CE(z / w) + CE(z_new) + weight * KD``, then compression, ``-sum_i q_i log p_i``.

    1. The network of the step before is frozen, and a copy of its backbone is trained beside it. z are the logits of a
       head on the features of both, ``z_new`` the logits of a head on the new features, both over all classes seen; KD
       is from the teacher over the old classes. ``w_i`` is the class-balanced weight of class i
       (`class_balanced_weights` with `beta`): dividing by it, the logit alignment, demands larger logits for classes
       with few images.
    2. The network of the step before, with its head grown, is trained to reproduce the boosted network: p is its
       softmax, and q is proportional to ``w_i`` (with `compression_beta`) times the softmax of the boosted network, at
       the temperature of KD and without weight decay.

    The first step is cross-entropy. The stages share the epochs of the cell in the original's proportion, 170 to 130.
    Rows are of the compressed network, with which the next step begins; the paper also lists the network before
    compression, as B4. Its AutoAugment is left out, because all rows have the augmentation of the cell.

    Attributes
    ----------
    beta, compression_beta : float, default 0.96 and 0.97
        Between 0 and 1: the nearer to 1, the more the number of images counts.
    weight : float, default 1
        Weight of KD.
    temperature : float, default 2
        Temperature of the softmaxes of both stages.

    References
    ----------
    Wang et al. 2022, FOSTER: Feature Boosting and Compression for Class-Incremental Learning.
    """

    name: ClassVar[str] = "foster"
    has_teacher: ClassVar[bool] = True

    beta: float = 0.96
    compression_beta: float = 0.97
    weight: float = 1.0
    temperature: float = 2.0

    def learn(self, step: Step, network: Network, teacher: torch.nn.Module | None) -> None:
        if teacher is None:
            super().learn(step, network, teacher)
            return
        from energyalign.experiments.engine.outputs import for_inference

        first, second = divide_epochs(step.recipe, STAGE_1, STAGE_2)
        boosted = self.boost(step, network)
        step.train_network(boosted, self.loss(step, teacher), stage="boosting", recipe=first)
        compression = self.compression_loss(step, for_inference(boosted))
        step.train_network(network, compression, stage="compression", recipe=second.with_weight_decay(0.0))

    def boost(self, step: Step, network: Network) -> Network:
        """Return a frozen copy of the network beside a backbone that learns."""
        from energyalign.experiments.nets.expanding import expand

        step.seed_torch("boosting")
        return expand([network.backbone], network.head, step.n_seen, n_auxiliary=step.n_seen, bias=True)

    def loss(self, step: Step, teacher: torch.nn.Module | None) -> Loss:
        """Return the loss of boosting, or cross-entropy in the first step."""
        import torch
        from torch.nn import functional as F

        from energyalign.experiments.losses.distillation import distillation

        if teacher is None:
            return super().loss(step, teacher)
        weights, n_old = class_weights(step, self.beta), step.n_old

        def loss(model: torch.nn.Module, batch: Any, _epoch: int) -> torch.Tensor:
            logits, of_new = model(batch.images, with_auxiliary=True)
            with torch.no_grad():
                taught = teacher(batch.images)
            kept = distillation(logits[:, :n_old], taught, self.temperature)
            fitted = F.cross_entropy(logits / weights, batch.labels) + F.cross_entropy(of_new, batch.labels)
            return fitted + self.weight * kept

        return loss

    def compression_loss(self, step: Step, teacher: torch.nn.Module) -> Loss:
        """Return the distillation loss over all classes, with larger weights for rare ones."""
        import torch
        from torch.nn import functional as F

        weights = class_weights(step, self.compression_beta)

        def loss(model: torch.nn.Module, batch: Any, _epoch: int) -> torch.Tensor:
            with torch.no_grad():
                taught = weights * (teacher(batch.images) / self.temperature).softmax(dim=1)
            return F.cross_entropy(model(batch.images) / self.temperature, taught / taught.sum(dim=1, keepdim=True))

        return loss


def class_weights(step: Step, beta: float) -> torch.Tensor:
    """Return the class-balanced weights of the classes seen, on the device of the step."""
    import torch

    from energyalign.experiments.losses.class_balanced import class_balanced_weights

    counts = torch.tensor(step.counts, dtype=torch.float32)
    return class_balanced_weights(counts, beta).to(step.fabric.device)
