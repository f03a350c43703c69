"""WA: the weights of new classes are made as long as those of old ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from energyalign.experiments.correctors.base import Corrected, Corrector, Feedback, RunSetting, refuse_one_step
from energyalign.experiments.nets.registry import HEADS

if TYPE_CHECKING:
    from energyalign.experiments.engine.config import EvidencePlan
    from energyalign.experiments.engine.trained import Trained


_IDLE = "a head that normalises its weights predicts as before: weight aligning needs --head linear."


@dataclass(frozen=True)
class WeightAligning(Corrector):
    """``gamma w_i`` in the place of the weights of new classes i, with ``gamma = mean |w_old| / mean |w_new|``.

    The method's head has no bias, and neither has that of the learner ``wa``; behind a learner whose head has one, the
    bias stays, as in public implementations. The original aligns the network itself, once after each step: the next
    student goes on with the aligned weights, and the next teacher has them too.

    A head that normalises its weights, as a cosine head does, predicts as before. So does a head whose new weights are
    all zero, which no factor makes longer; gamma is 1 then.

    The row has the random memory of energy aligning, with which the paper compares it.

    References
    ----------
    Zhao et al. 2020, Maintaining Discrimination and Fairness in Class Incremental Learning.
    """

    feedback: ClassVar[Feedback] = "student"  # and with it the teacher

    def check(self, setting: RunSetting) -> None:
        """It aligns new classes with old ones; tau-norm with tau = 1 does it class by class."""
        refuse_one_step(setting, "wa")

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:  # noqa: ARG002
        """The head with rescaled rows."""
        import torch

        head, n_old = trained.copied_head(), trained.n_old
        lengths = torch.linalg.vector_norm(head.weight.detach().cpu().double(), dim=1)
        old, new = float(lengths[:n_old].mean()), float(lengths[n_old:].mean())
        gamma = old / new if new > 0 else 1.0
        with torch.no_grad():
            head.weight[n_old:] *= gamma
        idle = (_IDLE,) if HEADS[trained.config.head].is_normalised else ()
        return Corrected(trained.with_head(head), details={"gamma": gamma}, concerns=idle)
