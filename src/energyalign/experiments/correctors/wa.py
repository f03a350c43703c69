"""WA: the weights of new classes are scaled to the mean norm of old ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from energyalign.experiments.correctors.base import Corrected, Corrector, Feedback, RunSetting, refuse_one_step
from energyalign.experiments.nets.registry import HEADS

if TYPE_CHECKING:
    from energyalign.experiments.engine.config import EvidencePlan
    from energyalign.experiments.engine.trained import Trained

_IDLE = "weight aligning does not change a head that normalises its weights: give --head linear."


@dataclass(frozen=True)
class WeightAligning(Corrector):
    """Weights ``gamma w_i`` of new classes i, with ``gamma = mean |w_old| / mean |w_new|``.

    The method's head, which the learner ``wa`` trains, has no bias; after other learners the bias does not change, as
    in public implementations. The original aligns the network itself after each step, so the next student and teacher
    both start from the aligned weights.

    A head that normalises its weights, such as a cosine head, predicts as before. If all new weights are zero, gamma
    is 1. The row has the random memory of energy aligning, with which the paper compares it.

    References
    ----------
    Zhao et al. 2020, Maintaining Discrimination and Fairness in Class Incremental Learning.
    """

    feedback: ClassVar[Feedback] = "student"  # and with it the teacher

    def check(self, setting: RunSetting) -> None:
        refuse_one_step(setting, "wa")

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:  # noqa: ARG002
        import torch

        head, n_old = trained.copied_head(), trained.n_old
        lengths = torch.linalg.vector_norm(head.weight.detach().cpu().double(), dim=1)
        old, new = float(lengths[:n_old].mean()), float(lengths[n_old:].mean())
        gamma = old / new if new > 0 else 1.0
        with torch.no_grad():
            head.weight[n_old:] *= gamma
        idle = (_IDLE,) if HEADS[trained.config.head].is_normalised else ()
        return Corrected(trained.with_head(head), details={"gamma": gamma}, concerns=idle)
