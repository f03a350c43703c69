"""What several learners and correctors cannot work with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from energyalign.core.errors import EnergyAlignError

if TYPE_CHECKING:
    from energyalign.incremental.config import IncrementalConfig


def refuse_no_memory(config: IncrementalConfig, why: str) -> None:
    """Refuse a run that keeps no exemplars, and say what they are needed for."""
    if config.memory.selection == "none":
        raise EnergyAlignError(
            f"{why}, and the memory none keeps nothing of old classes: give a memory, for example --memory random, or "
            "leave it out."
        )
