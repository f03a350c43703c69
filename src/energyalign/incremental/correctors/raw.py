"""The network as trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from energyalign.incremental.correctors.base import Corrected
from energyalign.incremental.correctors.plain import PlainCorrector

if TYPE_CHECKING:
    from energyalign.experiment.evidence import EvidencePlan
    from energyalign.incremental.after_step import AfterStep


@dataclass(frozen=True)
class Raw(PlainCorrector):
    """Nothing is done."""

    def correct(self, after: AfterStep, plan: EvidencePlan) -> Corrected:  # noqa: ARG002
        """The head as it is."""
        return Corrected(after.copied_head())
