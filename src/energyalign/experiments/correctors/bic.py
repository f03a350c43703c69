"""BiC: a scale and a shift of the logits of new classes, learned on images that were held out from training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from energyalign.experiments.correctors.base import Corrected, Corrector, Feedback, RunSetting, refuse_one_step

if TYPE_CHECKING:
    import torch

    from energyalign.experiments.engine.config import EvidencePlan
    from energyalign.experiments.engine.trained import Trained


MIN_HELD_OUT = 2  # images of a class: what the original has at the last of ten steps on CIFAR-100


@dataclass(frozen=True)
class BiasCorrection(Corrector):
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

    feedback: ClassVar[Feedback] = "teacher"
    held_out: ClassVar[float] = 0.1

    decay: float = 0.1

    def check(self, setting: RunSetting) -> None:
        """It corrects new classes against old ones."""
        refuse_one_step(setting, "bic")

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:  # noqa: ARG002
        """The head with the pair behind it."""
        import torch

        from energyalign.experiments.nets.corrected_heads import NewScaledAndShifted

        held_out = trained.held_out
        assert held_out is not None  # the experiment has refused runs that hold out none
        head = trained.copied_head()
        logits = torch.from_numpy(trained.scores(head, trained.features(held_out)))
        pair = fit_pair(logits, torch.from_numpy(held_out.labels), trained.n_old, self.decay)
        alpha, beta = pair.tolist()
        each = len(held_out) // trained.n_seen
        return Corrected(
            trained.with_head(NewScaledAndShifted(head, pair.float(), trained.n_old)),
            details={"alpha": alpha, "beta": beta, "held_out": len(held_out)},
            concerns=(_describe_few(each),) if each < MIN_HELD_OUT else (),
        )


def _describe_few(n_held_out: int) -> str:
    return (
        f"scale and shift were learned from {n_held_out} held-out images of each class, which is little: give a larger "
        "memory."
    )


def fit_pair(logits: torch.Tensor, labels: torch.Tensor, n_old: int, decay: float) -> torch.Tensor:
    """Alpha and beta, in double precision, from logits of held-out images."""
    import torch
    from torch.nn import functional as F

    from energyalign.experiments.nets.corrected_heads import scale_and_shift_new

    logits = logits.double()
    pair = torch.tensor([1.0, 0.0], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([pair], max_iter=200, tolerance_grad=1e-5, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        value = F.cross_entropy(scale_and_shift_new(logits, pair, n_old), labels) + decay * pair[1] ** 2 / 2
        value.backward()
        return value.detach()

    optimizer.step(loss)
    return pair.detach()
