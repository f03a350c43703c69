"""BiC: a scale and a shift for the logits of new classes, learned on held-out images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from energyalign.experiments.correctors.base import Corrected, Corrector, Feedback, RunSetting, refuse_one_step

if TYPE_CHECKING:
    import torch

    from energyalign.experiments.engine.config import EvidencePlan
    from energyalign.experiments.engine.trained import Trained

MIN_HELD_OUT = 2  # images of a class; the original has as many in the last of ten steps on CIFAR-100
_FEW = "scale and shift were learned from only {} held-out images of each class: give a larger memory."


@dataclass(frozen=True)
class BiasCorrection(Corrector):
    """``alpha * o_i + beta`` instead of the logits o_i of new classes i, with one pair (alpha, beta) for all of them.

    The pair minimises the mean of ``CE + decay * beta^2 / 2`` over held-out images, equally many of each class, with
    the network frozen. It always corrects the network as trained; pairs of earlier steps are discarded. The next
    teacher carries the pair, the next student does not.

    Exemplars are herded on normalised features and shrink by prefix, as in all rows. As many images of a new class are
    held out as of an old one; the original always holds out 20.

    The original minimises from alpha = 1 and beta = 0 by momentum SGD with rate 0.1, times 0.1 at epochs 60, 120, 160
    and 180 of 200. Here L-BFGS starts from the same point, on all images at once and in double precision. On digits the
    two agree to about 0.02, but for large logits the steps of the original are too long, and it misses the minimum of
    this convex function. If a larger alpha always separates the images better, there is no minimum; L-BFGS then stops
    where the gradient is below 1e-5.

    Attributes
    ----------
    decay : float, default 0.1
        Weight of the penalty, which is on beta alone.

    References
    ----------
    Wu et al. 2019, Large Scale Incremental Learning.
    """

    feedback: ClassVar[Feedback] = "teacher"
    held_out: ClassVar[float] = 0.1

    decay: float = 0.1

    def check(self, setting: RunSetting) -> None:
        refuse_one_step(setting, "bic")

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:  # noqa: ARG002
        import torch

        from energyalign.experiments.nets.corrected_heads import NewScaledAndShifted

        held_out = trained.held_out
        assert held_out is not None  # the experiment holds images out for this corrector
        head = trained.copied_head()
        logits = torch.from_numpy(trained.scores(head, trained.features(held_out)))
        pair = fit_pair(logits, torch.from_numpy(held_out.labels), trained.n_old, self.decay)
        alpha, beta = pair.tolist()
        each = len(held_out) // trained.n_seen
        return Corrected(
            trained.with_head(NewScaledAndShifted(head, pair.float(), trained.n_old)),
            details={"alpha": alpha, "beta": beta, "held_out": len(held_out)},
            concerns=(_FEW.format(each),) if each < MIN_HELD_OUT else (),
        )


def fit_pair(logits: torch.Tensor, labels: torch.Tensor, n_old: int, decay: float) -> torch.Tensor:
    """Fit alpha and beta, in double precision, to logits of held-out images."""
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
