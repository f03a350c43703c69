"""BiC: a scale and a shift of the logits of new classes, learned on images that were held out from training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional as F

from energyalign.incremental.correctors.base import Corrected, Feedback
from energyalign.incremental.correctors.plain import PlainCorrector

if TYPE_CHECKING:
    from energyalign.experiment.evidence import EvidencePlan
    from energyalign.incremental.after_step import AfterStep


FEW = 2  # held-out images of a class: what the original has at the last of ten steps on CIFAR-100


class ScaledAndShiftedHead(nn.Module):  # type: ignore[misc]
    """A head whose logits of new classes are ``alpha * logit + beta``; those of old classes stay.

    Parameters
    ----------
    head : torch.nn.Module
    pair : tensor of shape (2,)
        Alpha and beta.
    n_old : int
    """

    pair: torch.Tensor

    def __init__(self, head: nn.Module, pair: torch.Tensor, n_old: int) -> None:
        super().__init__()
        self.head, self.n_old = head, n_old
        self.register_buffer("pair", pair)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Corrected logits."""
        return scaled_and_shifted(self.head(features), self.pair, self.n_old)


@dataclass(frozen=True)
class BiasCorrection(PlainCorrector):
    """``alpha * o_i + beta`` in the place of the logits o_i of new classes i; one pair for all of them.

    The pair minimises ``CE + decay * beta^2 / 2``, the mean over images that were held out, as many of each class, with
    the network as it is. It always corrects the network as trained: pairs of earlier steps are gone. The next teacher
    carries the pair, the next student does not.

    Exemplars are herded on normalised features and shrink by prefix, as in all rows; of a new class as many images are
    held out as of an old one, where the original always holds out 20.

    The original descends from alpha = 1 and beta = 0 by momentum SGD of rate 0.1, times 0.1 at epochs 60, 120, 160 and
    180 of 200. Here L-BFGS goes down from there, on all images at once and in double precision. On digits the two
    agree to about 0.02, but where logits are large the steps of the original are too long, and it ends beside the
    minimum of this convex function. If images are told apart the better the larger alpha is, there is no minimum; the
    descent then ends where the slope is below 1e-5.

    Attributes
    ----------
    decay : float
        Of beta alone.

    References
    ----------
    Wu et al. 2019, Large Scale Incremental Learning.
    """

    decay: float = 0.1

    @property
    def feedback(self) -> Feedback:
        """To the teacher alone."""
        return "teacher"

    @property
    def held_out(self) -> float:
        """A tenth of the exemplars."""
        return 0.1

    def correct(self, after: AfterStep, plan: EvidencePlan) -> Corrected:  # noqa: ARG002
        """The head with the pair behind it."""
        step, held_out = after.step, after.step.held_out
        assert held_out is not None  # the experiment has refused runs that hold out none
        head = after.copied_head()
        logits = torch.from_numpy(after.scores(head, after.features(held_out)))
        pair = fitted_pair(logits, torch.from_numpy(held_out.labels), step.n_old, self.decay)
        alpha, beta = pair.tolist()
        corrected = ScaledAndShiftedHead(head, pair.float().to(step.fabric.device), step.n_old)
        details = {"alpha": alpha, "beta": beta, "held_out": len(held_out)}
        each = len(held_out) // step.n_seen
        concerns = (_told(each),) if each < FEW else ()
        return Corrected(corrected, details=details, concerns=concerns)


def _told(n_held_out: int) -> str:
    return (
        f"scale and shift were learned from {n_held_out} held-out images of each class, which is little: give a larger "
        "memory."
    )


def fitted_pair(logits: torch.Tensor, labels: torch.Tensor, n_old: int, decay: float) -> torch.Tensor:
    """Alpha and beta, in double precision, from logits of held-out images."""
    logits = logits.double()
    pair = torch.tensor([1.0, 0.0], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([pair], max_iter=200, tolerance_grad=1e-5, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        value = F.cross_entropy(scaled_and_shifted(logits, pair, n_old), labels) + decay * pair[1] ** 2 / 2
        value.backward()
        return value.detach()

    optimizer.step(loss)
    return pair.detach()


def scaled_and_shifted(logits: torch.Tensor, pair: torch.Tensor, n_old: int) -> torch.Tensor:
    """With the pair applied to the columns of new classes."""
    return torch.cat([logits[:, :n_old], pair[0] * logits[:, n_old:] + pair[1]], dim=1)
