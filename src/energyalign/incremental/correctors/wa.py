"""WA: the weights of new classes are made as long as those of old ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from energyalign.incremental.correctors.base import Corrected, Feedback
from energyalign.incremental.correctors.plain import PlainCorrector
from energyalign.nets.normalised import NormalisedHead

if TYPE_CHECKING:
    from energyalign.experiment.evidence import EvidencePlan
    from energyalign.incremental.after_step import AfterStep


_IDLE = ("a head that normalises its weights predicts as before: weight aligning needs --head linear.",)


@dataclass(frozen=True)
class WeightAligning(PlainCorrector):
    """``gamma w_i`` in the place of the weights of new classes i, with ``gamma = mean |w_old| / mean |w_new|``.

    The bias stays. The original aligns the network itself, once after each step: the next student goes on with the
    aligned weights, and the next teacher has them too.

    A head that normalises its weights, as a cosine head does, predicts as before. So does a head whose new weights are
    all zero, which no factor makes longer; gamma is 1 then.

    The row has the random memory of energy aligning, with which the paper compares it.

    References
    ----------
    Zhao et al. 2020, Maintaining Discrimination and Fairness in Class Incremental Learning.
    """

    @property
    def feedback(self) -> Feedback:
        """To the student, and with it to the teacher."""
        return "student"

    def correct(self, after: AfterStep, plan: EvidencePlan) -> Corrected:  # noqa: ARG002
        """The head with rescaled rows."""
        head, n_old = after.copied_head(), after.step.n_old
        lengths = torch.linalg.vector_norm(head.weight.detach().cpu().double(), dim=1)
        old, new = float(lengths[:n_old].mean()), float(lengths[n_old:].mean())
        gamma = old / new if new > 0 else 1.0
        with torch.no_grad():
            head.weight[n_old:] *= gamma
        return Corrected(head, details={"gamma": gamma}, concerns=_IDLE if isinstance(head, NormalisedHead) else ())
