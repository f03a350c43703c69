"""Joint training: what could be reached if nothing had to be forgotten."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from energyalign.incremental.learners.fine_tuning import FineTuning
from energyalign.nets.network import Network

if TYPE_CHECKING:
    from energyalign.incremental.step import Step


@dataclass(frozen=True)
class Joint(FineTuning):
    """A new network in every step, trained on all images of all classes seen. It belongs to the memory ``all``."""

    name: ClassVar[str] = "joint"

    def start(self, step: Step, before: Network | None) -> Network:  # noqa: ARG002
        """Always a new one."""
        return super().start(step, None)
