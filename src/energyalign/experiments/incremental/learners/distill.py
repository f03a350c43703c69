"""Rehearsal and distillation: the training of the paper, of BiC and of WA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from energyalign.experiments.incremental.learners.fine_tuning import FineTuning

if TYPE_CHECKING:
    import torch

    from energyalign.experiments.incremental.step import Step
    from energyalign.experiments.nets.network import Network
    from energyalign.experiments.train.loop import Loss


@dataclass(frozen=True)
class Distill(FineTuning):
    """``(1 - lambda) CE + lambda KD`` with ``lambda = lambda_base * C_old / (C_old + C_new)``.

    CE is over all classes seen, KD over the old ones, both on new images and exemplars (Algorithm 1 of the paper). The
    teacher is the corrected network of the step before; the student continues from the weights as trained. The first
    step is CE alone.

    Attributes
    ----------
    temperature : float, default 2
        Temperature of both softmaxes of KD.

    References
    ----------
    Wu et al. 2019, Large Scale Incremental Learning; Zhao et al. 2021, Energy Aligning for Biased Models.
    """

    name: ClassVar[str] = "distill"
    has_teacher: ClassVar[bool] = True

    temperature: float = 2.0

    def weight(self, step: Step) -> float:
        """Return lambda."""
        return step.config.lambda_base * step.n_old / step.n_seen

    def loss(self, step: Step, teacher: torch.nn.Module | None) -> Loss:
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


@dataclass(frozen=True)
class BiC(Distill):
    """``(1 - lambda) CE + lambda KD`` with ``lambda = C_old / (C_old + C_new)``, whatever the cell says.

    Stage 1 of the original, with its linear head. Stage 2 is the corrector of the same name, for which images are held
    out from this training.

    References
    ----------
    Wu et al. 2019, Large Scale Incremental Learning.
    """

    name: ClassVar[str] = "bic"
    head: ClassVar[str | None] = "linear"

    def weight(self, step: Step) -> float:
        return step.n_old / step.n_seen


@dataclass(frozen=True)
class WA(BiC):
    """The loss of `BiC` with weights ``w <- max(w, 0)`` and a linear head without bias, ``z_i = w_i . x``.

    Weights are clipped after every step of the optimiser. Features come out of a ReLU, so longer weights give larger
    logits, and the corrector of the same name, which makes weights equally long, makes logits equally large. With a
    bias, evidence against a class could only go into the bias, which the corrector does not change; the paper's
    equations have no bias.

    Public implementations leave the clipping out. Here it happens before every forward pass and once at the end, which
    also covers newly initialised weights.

    References
    ----------
    Zhao et al. 2020, Maintaining Discrimination and Fairness in Class Incremental Learning.
    """

    name: ClassVar[str] = "wa"
    needs_no_negative_features: ClassVar[bool] = True

    def start(self, step: Step, before: Network | None) -> Network:
        network = super().start(step, before)
        network.head.bias = None
        return network

    def learn(self, step: Step, network: Network, teacher: torch.nn.Module | None) -> None:
        import torch

        unclipped = self.loss(step, teacher)

        def clip() -> None:
            with torch.no_grad():
                network.head.weight.clamp_(min=0.0)

        def loss(model: torch.nn.Module, batch: Any, epoch: int) -> torch.Tensor:
            clip()
            return unclipped(model, batch, epoch)

        step.train_network(network, loss)
        clip()
