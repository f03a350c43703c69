"""The interface of the demo's two applications: their runs, and the tables of their results."""

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
CAVEAT = "One small network on small images: it shows how the method works, not how well it works elsewhere."

Results = Mapping[Path, list[Row]]
"""The rows of each run, by its run directory."""


class Run(NamedTuple):
    """One training, with the name to print and its run directory."""

    name: str
    folder: Path
    experiment: Experiment[Any]


class DemoSection(NamedTuple):
    """Tables of one application, and paragraphs that explain them."""

    title: str
    tables: Sequence[PaperTable]
    paragraphs: Sequence[str]


class DemoPart(Protocol):
    """One application in the demo."""

    correctors: Sequence[str]

    @property
    def introduction(self) -> str:
        """Data and network of the runs."""

    def runs(self, out: Path) -> list[Run]:
        """Return all runs, with run directories below `out`."""

    def section(self, results: Results) -> DemoSection:
        """Return the tables of the results."""


def all_rows(results: Results) -> list[Row]:
    """Return the rows of all runs."""
    return [row for of_run in results.values() for row in of_run]


def command_for(seeds: Sequence[int]) -> str:
    """Return the command that repeats these runs, without --out."""
    return "energyalign demo" + (f" --seed {seeds[0]}" if seeds[0] else "")


def describe_seeds(seeds: Sequence[int]) -> str:
    """Describe seeds, such as ``3 seeds (0 to 2)``."""
    return f"{len(seeds)} seeds ({seeds[0]} to {seeds[-1]})"
