"""The training of WA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from energyalign.experiments.incremental.learners.distill import Distill

if TYPE_CHECKING:
    import torch

    from energyalign.experiments.incremental.step import Step
    from energyalign.experiments.nets.network import Network


@dataclass(frozen=True)
class WA(Distill):
    """``(1 - lambda) CE + lambda KD`` with ``lambda = C_old / (C_old + C_new)``, and weights ``w <- max(w, 0)``.

    The head is linear without a bias, ``z_i = w_i . x``, as in the paper's equations. With weights and features that
    are not negative, evidence against a class could only go into a bias, and the corrector of the same name would
    leave it there. Weights are clipped after every step of the optimiser. Features come out of a ReLU, so longer
    weights give larger logits, and the corrector, which makes weights equally long, makes logits equally large. Public
    implementations leave the clipping out. Here it happens before every forward pass and once at the end, which also
    covers weights that were just drawn.

    References
    ----------
    Zhao et al. 2020, Maintaining Discrimination and Fairness in Class Incremental Learning.
    """

    name: ClassVar[str] = "wa"
    head: ClassVar[str | None] = "linear"
    needs_no_negative_features: ClassVar[bool] = True

    def weight(self, step: Step) -> float:
        """Lambda: the part of the classes that are old."""
        return step.n_old / step.n_seen

    def start(self, step: Step, before: Network | None) -> Network:
        """A network without a bias in its head."""
        network = super().start(step, before)
        network.head.bias = None
        return network

    def learn(self, step: Step, network: Network, teacher: torch.nn.Module | None) -> None:
        """Train with weights that are not negative."""
        unclipped = self.loss(step, teacher)

        def loss(model: torch.nn.Module, batch: Any, epoch: int) -> torch.Tensor:
            clip(network.head)
            return unclipped(model, batch, epoch)

        step.train_network(network, loss)
        clip(network.head)


def clip(head: torch.nn.Module) -> None:
    """Put zeros in the place of negative weights."""
    import torch

    with torch.no_grad():
        head.weight.clamp_(min=0.0)
