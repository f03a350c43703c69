"""The training of WA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from energyalign.incremental.learners.distill import Distill
from energyalign.nets.network import Network

if TYPE_CHECKING:
    from energyalign.incremental.step import Step


@dataclass(frozen=True)
class WA(Distill):
    """``(1 - lambda) CE + lambda KD`` with ``lambda = C_old / (C_old + C_new)``, and weights ``w <- max(w, 0)``.

    The head is linear, and its weights (not its bias) are clipped after every step of the optimiser. Features are not
    negative, as they come out of a ReLU, so that the longer weights of two classes are those with the larger logits:
    then the corrector of the same name, which makes weights equally long, makes logits equally large. Public
    implementations leave the clipping out. Here it is done before every forward pass, which is after every step of the
    optimiser and once more, for weights that were just drawn, and at the end.

    References
    ----------
    Zhao et al. 2020, Maintaining Discrimination and Fairness in Class Incremental Learning.
    """

    name: ClassVar[str] = "wa"
    head: ClassVar[str | None] = "linear"

    def weight(self, step: Step) -> float:
        """Lambda: the part of the classes that are old."""
        return step.n_old / step.n_seen

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
    with torch.no_grad():
        head.weight.clamp_(min=0.0)
