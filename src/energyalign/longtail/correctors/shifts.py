"""Correctors that add a number per class: the raw network, logit adjustment, energy aligning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from energyalign.core.errors import EnergyAlignError
from energyalign.core.sharing import SharingChoice
from energyalign.experiment.shift_fit import fit_for_row, looks_at_evidence
from energyalign.longtail.correctors.base import Corrected

if TYPE_CHECKING:
    from energyalign.experiment.evidence import EvidencePlan
    from energyalign.longtail.setting import Setting
    from energyalign.longtail.trained import Trained


@dataclass(frozen=True)
class ShiftCorrector:
    """An estimator with a way of sharing."""

    estimator: str
    clusters: SharingChoice

    @property
    def reads_evidence(self) -> bool:
        """As its estimator does."""
        return looks_at_evidence(self.estimator)

    def check(self, setting: Setting) -> None:
        """There must be as many different counts as clusters."""
        distinct = len(setting.counts.unique())
        if isinstance(self.clusters, int) and self.clusters > distinct:
            raise EnergyAlignError(
                f"{self.clusters} clusters: the classes have only {distinct} different training counts. Ask for fewer."
            )

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:
        """Shifts from the evidence, added to the logits."""
        shifts = fit_for_row(
            self.estimator, self.clusters, counts=trained.data.counts, evidence=lambda: trained.evidence(plan)
        )
        return Corrected(shifts.apply(trained.test_logits), shifts)
