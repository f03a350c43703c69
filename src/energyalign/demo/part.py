"""What the demo asks of each application: runs to make, and what to show of their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.engine.row import Row
from energyalign.report.tables.model import PaperTable

if TYPE_CHECKING:
    from energyalign.experiments.engine.experiment import Experiment

EVIDENCE = EvidencePlan()
ALIGNED = "ea"
CAVEAT = "One small network on small images: it shows how the method works, not how well it does elsewhere."

Results = Mapping[Path, list[Row]]
"""The rows of each run, by its run directory."""


class Run(NamedTuple):
    """One training: what its line says of it, and where it is."""

    name: str
    folder: Path
    experiment: Experiment[Any]


class DemoSection(NamedTuple):
    """What is printed of one application: tables, and paragraphs that say what was measured."""

    title: str
    tables: Sequence[PaperTable]
    paragraphs: Sequence[str]


class DemoPart(Protocol):
    """One application in the demo."""

    correctors: Sequence[str]

    @property
    def introduction(self) -> str:
        """What is going to be trained, on what."""

    def runs(self, out: Path) -> list[Run]:
        """All trainings, in run directories below `out`."""

    def section(self, results: Results) -> DemoSection:
        """Tables, and what they are of."""


def all_rows(results: Results) -> list[Row]:
    """Of all runs, one after the other."""
    return [row for of_run in results.values() for row in of_run]


def command_for(seeds: Sequence[int]) -> str:
    """That makes these runs again, wherever they are to go."""
    return "energyalign demo" + (f" --seed {seeds[0]}" if seeds[0] else "")


def seeds_of(seeds: Sequence[int]) -> str:
    """For example ``3 seeds (0 to 2)``."""
    return f"{len(seeds)} seeds ({seeds[0]} to {seeds[-1]})"
