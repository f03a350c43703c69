"""Rehearsal and distillation: the training of the paper, of BiC and of WA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from energyalign.experiments.incremental.learners.fine_tuning import FineTuning

if TYPE_CHECKING:
    import torch

    from energyalign.experiments.incremental.step import Step
    from energyalign.experiments.train.loop import Loss


@dataclass(frozen=True)
class Distill(FineTuning):
    """``(1 - lambda) CE + lambda KD`` with ``lambda = lambda_base * C_old / (C_old + C_new)``.

    CE is over all classes seen, KD over the old ones alone, both on new images and exemplars (Algorithm 1 of the
    paper). The teacher is the network of the step before, corrected; the student goes on from its weights as trained.

    Attributes
    ----------
    temperature : float
        Of both softmaxes of KD.

    References
    ----------
    Wu et al. 2019, Large Scale Incremental Learning; Zhao et al. 2021, Energy Aligning for Biased Models.
    """

    name: ClassVar[str] = "distill"
    has_teacher: ClassVar[bool] = True

    temperature: float = 2.0

    def weight(self, step: Step) -> float:
        """Lambda, the weight of the teacher."""
        return step.config.lambda_base * step.n_old / step.n_seen

    def loss(self, step: Step, teacher: torch.nn.Module | None) -> Loss:
        """Cross-entropy alone in the first step."""
        import torch
        from torch.nn import functional as F

        from energyalign.experiments.losses.distillation import distillation

        if teacher is None:
            return super().loss(step, teacher)
        weight, n_old = self.weight(step), step.n_old

        def loss(model: torch.nn.Module, batch: Any, _epoch: int) -> torch.Tensor:
            logits = model(batch.images)
            with torch.no_grad():
                taught = teacher(batch.images)
            old = distillation(logits[:, :n_old], taught, self.temperature)
            return (1.0 - weight) * F.cross_entropy(logits, batch.labels) + weight * old

        return loss
