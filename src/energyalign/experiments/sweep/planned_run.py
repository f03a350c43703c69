"""One run of a sweep: an ordinary run directory, and the command that fills it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.engine.stored import read_rows
from energyalign.experiments.train.run_directory import RunDirectory

_EVIDENCE = (None, EvidencePlan())


@dataclass(frozen=True, eq=False)
class PlannedRun:
    """A training with one seed, and all rows that share it.

    Attributes
    ----------
    name : str
        Unique in its sweep, for example ``cifar100-lt-100/ce/seed-0``.
    folder : Path
        The run directory.
    command : tuple of str
        What follows ``energyalign`` on the command line.
    config : dict
        What config.json holds once the run has begun.
    correctors : tuple of str
        What is measured.
    hours : float or None
        A guess at its cost on one GPU; None if there is nothing to guess from.
    """

    name: str
    folder: Path
    command: tuple[str, ...]
    config: dict[str, Any]
    correctors: tuple[str, ...]
    hours: float | None = None

    @property
    def command_line(self) -> str:
        """As a shell takes it."""
        return shlex.join(("energyalign", *self.command))

    def is_done(self) -> bool:
        """Whether all its rows are there, of this very setting.

        A folder with another setting, or that is damaged, is not done: the run refuses it and says why.
        """
        run = RunDirectory(self.folder)
        try:
            rows = read_rows(run) if run.read_json("config.json") == self.config else []
        except EnergyAlignError:
            return False
        measured = {(row.corrector, row.step) for row in rows if row.evidence in _EVIDENCE}
        steps = range(1, self.config.get("n_steps", 1) + 1)
        return all((corrector, step) in measured for corrector in self.correctors for step in steps)
