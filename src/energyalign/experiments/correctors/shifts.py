"""Correctors that add a number per class: the raw network, logit adjustment, energy aligning."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from energyalign.core.clusters import Clusters
from energyalign.core.errors import EnergyAlignError, UntrustedEstimateWarning
from energyalign.core.estimators import look_up_estimator
from energyalign.core.evidence import Evidence
from energyalign.core.fitting import fit_shifts
from energyalign.experiments.correctors.base import (
    Corrected,
    Corrector,
    Feedback,
    RunSetting,
    refuse_no_memory,
    refuse_steps,
)

if TYPE_CHECKING:
    from energyalign.core.shifts import Shifts
    from energyalign.experiments.engine.config import EvidencePlan
    from energyalign.experiments.engine.trained import Trained


@dataclass(frozen=True)
class Raw(Corrector):
    """The network as trained."""

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:
        """The trained network itself, with shifts of zero."""
        return Corrected(trained.network, _fitted(trained, plan, "none", "per-class"))


@dataclass(frozen=True)
class ShiftCorrector(Corrector):
    """An estimator with the classes that share a shift. Override `shifts` to add other numbers.

    Attributes
    ----------
    estimator : str
        See `energyalign.core.estimators`.
    clusters : str or int
        Of a long tail: ``jenks`` for the best number of natural breaks of the training counts, as in the paper, so many
        of them, ``monotone``, ``per-class`` or ``auto``.
    clusters_in_steps : str
        Where classes come in steps: ``old-new`` for one shift of all new classes against the old ones, the anchor, as
        in the paper, or one of the above.
    feeds_back : bool, default False
        Whether the teacher of the next step carries the shifts. Those of earlier steps are gone: they are always
        calculated for the network as trained.
    """

    estimator: str
    clusters: str | int
    clusters_in_steps: str = "old-new"
    feeds_back: bool = False

    @property
    def reads_evidence(self) -> bool:  # type: ignore[override]
        """As its estimator does."""
        return _reads_evidence(self.estimator)

    @property
    def feedback(self) -> Feedback:  # type: ignore[override]
        """To the teacher alone: the student goes on from the weights as trained."""
        return "teacher" if self.feeds_back else "none"

    def check(self, setting: RunSetting) -> None:
        """Evidence takes images of every class, and clusters as many different counts."""
        refuse_no_memory(setting, f"{self.estimator} shifts need training images of every class seen")
        if not isinstance(self.clusters, int):
            return
        refuse_steps(setting, f"ea-M{self.clusters}")
        distinct = len(np.unique(np.bincount(setting.train.labels)))
        if self.clusters > distinct:
            raise EnergyAlignError(
                f"{self.clusters} clusters: the classes have only {distinct} different training counts. Ask for fewer."
            )

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:
        """The head with shifts behind it."""
        import torch

        from energyalign.experiments.nets.corrected_heads import ShiftedHead

        shifts = self.shifts(trained, plan)
        head = ShiftedHead(trained.copied_head(), torch.tensor(shifts.values, dtype=torch.float32))
        return Corrected(trained.with_head(head), shifts)

    def shifts(self, trained: Trained, plan: EvidencePlan) -> Shifts:
        """The numbers to add, one per class."""
        sharing: str | int | Clusters = self.clusters
        if trained.config.in_steps:
            sharing = self.clusters_in_steps
            if sharing == "old-new":
                sharing = Clusters.old_new(range(trained.n_old), trained.n_seen)
        return _fitted(trained, plan, self.estimator, sharing)


def _fitted(trained: Trained, plan: EvidencePlan, estimator: str, sharing: str | int | Clusters) -> Shifts:
    """The shifts of this estimator; its doubts are in the row, and no evidence is drawn that nobody would look at."""
    if _reads_evidence(estimator):
        return _quietly(trained.evidence(plan), estimator, sharing)
    # Evidence that says nothing of the network, which saves a pass over images.
    counts = trained.counts if look_up_estimator(estimator).reads_counts else None
    nothing = Evidence.from_arrays(np.zeros((1, trained.n_seen)), counts=counts, kind="training")
    return replace(_quietly(nothing, estimator, sharing), energies=None, effective_samples=None)


def _reads_evidence(estimator: str) -> bool:
    return estimator == "auto" or look_up_estimator(estimator).reads_evidence


def _quietly(evidence: Evidence, estimator: str, sharing: str | int | Clusters) -> Shifts:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustedEstimateWarning)  # they are in the row, and in the table
        return fit_shifts(evidence, estimator=estimator, clusters=sharing)
