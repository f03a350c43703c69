"""Correctors that add one number per class: the raw network, logit adjustment, energy aligning."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from energyalign.core.clusters import Clusters
from energyalign.core.column_order import MAY_BE_PERMUTED
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
        return Corrected(trained.network, _fit(trained, plan, "none", "per-class"))


@dataclass(frozen=True)
class ShiftCorrector(Corrector):
    """Add the shifts of an estimator. Override `shifts` to add other numbers.

    Attributes
    ----------
    estimator : str
        See `energyalign.core.estimators`.
    clusters : str or int
        Sharing in a long tail: ``jenks`` for the best number of natural breaks of the training counts, as in the paper,
        a number of clusters, ``monotone``, ``per-class`` or ``auto``.
    clusters_in_steps : str, default "old-new"
        Sharing where classes come in steps: ``old-new`` for one shift of all new classes, with the old ones as the
        anchor, as in the paper, or one of the above.
    feeds_back : bool, default False
        Whether the teacher of the next step carries the shifts. Shifts are always fitted to the network as trained, so
        the shifts of earlier steps do not accumulate.
    """

    estimator: str
    clusters: str | int
    clusters_in_steps: str = "old-new"
    feeds_back: bool = False

    @property
    def reads_evidence(self) -> bool:  # type: ignore[override]
        return _reads_evidence(self.estimator)

    @property
    def feedback(self) -> Feedback:  # type: ignore[override]
        """Return ``teacher`` or ``none``; the student always continues from the weights as trained."""
        return "teacher" if self.feeds_back else "none"

    def check(self, setting: RunSetting) -> None:
        refuse_no_memory(setting)
        if not isinstance(self.clusters, int):
            return
        refuse_steps(setting, f"ea-M{self.clusters}")
        distinct = len(np.unique(np.bincount(setting.train.labels)))
        if self.clusters > distinct:
            raise EnergyAlignError(
                f"clusters must be <= {distinct}, the number of different training counts, got {self.clusters}."
            )

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:
        import torch

        from energyalign.experiments.nets.corrected_heads import ShiftedHead

        shifts = self.shifts(trained, plan)
        head = ShiftedHead(trained.copied_head(), torch.tensor(shifts.values, dtype=torch.float32))
        return Corrected(trained.with_head(head), shifts)

    def shifts(self, trained: Trained, plan: EvidencePlan) -> Shifts:
        """Return the shifts."""
        sharing: str | int | Clusters = self.clusters
        if trained.config.in_steps:
            sharing = self.clusters_in_steps
            if sharing == "old-new":
                sharing = Clusters.old_new(range(trained.n_old), trained.n_seen)
        return _fit(trained, plan, self.estimator, sharing)


def _fit(trained: Trained, plan: EvidencePlan, estimator: str, sharing: str | int | Clusters) -> Shifts:
    """Fit shifts; draw evidence only for estimators that read it."""
    if _reads_evidence(estimator):
        return _fit_quietly(trained.evidence(plan), estimator, sharing)
    counts = trained.counts if look_up_estimator(estimator).reads_counts else None
    empty = Evidence.from_arrays(np.zeros((1, trained.n_seen)), counts=counts, kind="training")
    return replace(_fit_quietly(empty, estimator, sharing), energies=None, effective_samples=None)


def _reads_evidence(estimator: str) -> bool:
    return estimator == "auto" or look_up_estimator(estimator).reads_evidence


def _fit_quietly(evidence: Evidence, estimator: str, sharing: str | int | Clusters) -> Shifts:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustedEstimateWarning)  # the row has them
        shifts = fit_shifts(evidence, estimator=estimator, clusters=sharing)
    return replace(shifts, concerns=tuple(map(_doubt_training, shifts.concerns)))


def _doubt_training(concern: str) -> str:
    """Replace a warning about the column order, which is right here, by the actual cause."""
    problem, is_about_columns, _ = concern.partition(MAY_BE_PERMUTED)
    return f"{problem}: it has hardly learned. Train longer, or raise --lr." if is_about_columns else concern
