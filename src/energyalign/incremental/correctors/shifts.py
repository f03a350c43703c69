"""Correctors that add a number per class: energy aligning, and thresholding by the prior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn

from energyalign.core.clusters import Clusters
from energyalign.core.sharing import SharingChoice
from energyalign.experiment.shift_fit import fit_for_row, looks_at_evidence
from energyalign.incremental.correctors.base import Corrected, Feedback
from energyalign.incremental.correctors.plain import PlainCorrector
from energyalign.incremental.refusals import refuse_no_memory

if TYPE_CHECKING:
    from energyalign.experiment.evidence import EvidencePlan
    from energyalign.incremental.after_step import AfterStep
    from energyalign.incremental.config import IncrementalConfig

OLD_NEW = "old-new"


class ShiftedHead(nn.Module):  # type: ignore[misc]
    """A head and a number that is added to the logits of each class."""

    shifts: torch.Tensor

    def __init__(self, head: nn.Module, shifts: torch.Tensor) -> None:
        super().__init__()
        self.head = head
        self.register_buffer("shifts", shifts)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Shifted logits."""
        return self.head(features) + self.shifts


@dataclass(frozen=True)
class ShiftCorrector(PlainCorrector):
    """An estimator with a way of sharing.

    Attributes
    ----------
    estimator : str
        See `energyalign.core.estimators`.
    clusters : str
        ``old-new`` for one shift of all new classes against the old ones, the anchor, as in the paper; or any other way
        of sharing.
    feeds_back : bool
        Whether the teacher of the next step carries the shifts. Those of earlier steps are gone: they are always
        calculated for the network as trained.
    """

    estimator: str
    clusters: str
    feeds_back: bool = False

    @property
    def reads_evidence(self) -> bool:
        """As its estimator does."""
        return looks_at_evidence(self.estimator)

    @property
    def feedback(self) -> Feedback:
        """To the teacher alone: the student goes on from the weights as trained."""
        return "teacher" if self.feeds_back else "none"

    def check(self, config: IncrementalConfig) -> None:
        """Evidence takes images of every class, and a prior their number."""
        refuse_no_memory(config, f"{self.estimator} shifts need training images of every class seen")

    def correct(self, after: AfterStep, plan: EvidencePlan) -> Corrected:
        """The head with shifts behind it."""
        step = after.step
        sharing: SharingChoice = self.clusters
        if self.clusters == OLD_NEW:
            sharing = Clusters.old_new(range(step.n_old), step.n_seen)
        shifts = fit_for_row(self.estimator, sharing, counts=step.counts, evidence=lambda: after.evidence(plan))
        head = after.copied_head()
        values = torch.tensor(shifts.values, dtype=torch.float32, device=step.fabric.device)
        return Corrected(ShiftedHead(head, values), shifts)
