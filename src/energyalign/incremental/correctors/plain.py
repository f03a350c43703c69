"""What most correctors have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from energyalign.incremental.correctors.base import Feedback

if TYPE_CHECKING:
    from energyalign.incremental.config import IncrementalConfig


@dataclass(frozen=True)
class PlainCorrector:
    """Looks at no evidence, changes nothing of the next step, needs nothing held out, and works behind any training."""

    @property
    def reads_evidence(self) -> bool:
        """No."""
        return False

    @property
    def feedback(self) -> Feedback:
        """None."""
        return "none"

    @property
    def held_out(self) -> float:
        """Nothing."""
        return 0.0

    @property
    def first_step(self) -> int:
        """The second: there are no old classes before."""
        return 2

    def check(self, config: IncrementalConfig) -> None:
        """Nothing to refuse."""
