"""What a corrector is: something that puts another head in the place of the trained one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

import torch

from energyalign.core.shifts import Shifts

if TYPE_CHECKING:
    from energyalign.experiment.evidence import EvidencePlan
    from energyalign.incremental.after_step import AfterStep
    from energyalign.incremental.config import IncrementalConfig

Feedback: TypeAlias = Literal["none", "teacher", "student"]


class Corrected(NamedTuple):
    """What came of it.

    Attributes
    ----------
    head : torch.nn.Module
        From features to scores of the classes seen so far, of which the largest is the prediction. It is another
        module than the head of the network, which stays as trained.
    shifts : Shifts or None
        If all it did was to add a number per class.
    details : mapping
        What it chose on the way, for the row: numbers, strings, lists.
    concerns : tuple of str
        Reasons not to trust it, beside those that the shifts have.
    """

    head: torch.nn.Module
    shifts: Shifts | None = None
    details: Mapping[str, Any] = {}
    concerns: tuple[str, ...] = ()


class Corrector(Protocol):
    """One way of correcting after a step. It may look at what the step may look at; never at test images."""

    @property
    def reads_evidence(self) -> bool:
        """Whether another draw of evidence could change the result."""

    @property
    def feedback(self) -> Feedback:
        """What of the next step it changes: its ``teacher``, the ``student`` that goes on, or ``none``."""

    @property
    def held_out(self) -> float:
        """Which part of the exemplars it needs to be held out from training; 0 for most."""

    @property
    def first_step(self) -> int:
        """From which step on it has something to correct: 2 for all that set new classes against old ones."""

    def check(self, config: IncrementalConfig) -> None:
        """Refuse, before any training, what it could not correct."""

    def correct(self, after: AfterStep, plan: EvidencePlan) -> Corrected:
        """The head to predict with after this step, from `first_step` on."""
