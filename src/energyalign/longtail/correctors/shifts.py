"""Correctors that add a number per class: the raw network, logit adjustment, energy aligning."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from energyalign.core.arrays import Ints
from energyalign.core.errors import EnergyAlignError, UntrustedEstimateWarning
from energyalign.core.evidence import Evidence
from energyalign.core.fitting import fit_shifts
from energyalign.core.sharing import SharingChoice
from energyalign.longtail.correctors.base import Corrected

if TYPE_CHECKING:
    from energyalign.longtail.evidence import EvidencePlan
    from energyalign.longtail.setting import Setting
    from energyalign.longtail.trained import Trained


@dataclass(frozen=True)
class ShiftCorrector:
    """An estimator with a way of sharing."""

    estimator: str
    clusters: SharingChoice

    @property
    def reads_evidence(self) -> bool:
        """Logit adjustment knows the counts only, and the raw network nothing."""
        return self.estimator not in ("none", "prior")

    def check(self, setting: Setting) -> None:
        """There must be as many different counts as clusters."""
        distinct = len(setting.counts.unique())
        if isinstance(self.clusters, int) and self.clusters > distinct:
            raise EnergyAlignError(
                f"{self.clusters} clusters: the classes have only {distinct} different training counts. Ask for fewer."
            )

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:
        """Shifts from the evidence, added to the logits."""
        evidence = trained.evidence(plan) if self.reads_evidence else _of_counts_alone(trained.data.counts)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UntrustedEstimateWarning)  # they are in the row, and in the table
            shifts = fit_shifts(evidence, estimator=self.estimator, clusters=self.clusters)
        if not self.reads_evidence:
            shifts = replace(shifts, energies=None, effective_samples=None)  # nothing was measured
        return Corrected(shifts.apply(trained.test_logits), shifts)


def _of_counts_alone(counts: Ints) -> Evidence:
    """Evidence that says nothing of the network, which saves a pass over images that nobody would look at."""
    return Evidence.from_arrays(np.zeros((1, len(counts))), counts=counts, kind="training")
