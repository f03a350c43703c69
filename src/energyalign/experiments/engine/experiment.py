"""One run from settings to rows: open its folder, train, draw evidence, correct, measure, store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from lightning_fabric import Fabric

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.correctors import find_corrector
from energyalign.experiments.correctors.base import Cell, Corrected, Corrector
from energyalign.experiments.data.images import ImageSet
from energyalign.experiments.engine.config import RunConfig
from energyalign.experiments.engine.measure import Measure, RunFacts
from energyalign.experiments.engine.plan import EvidencePlan
from energyalign.experiments.engine.row import Row, read_rows, store_row
from energyalign.experiments.engine.trained import Trained
from energyalign.experiments.train.reporter import Reporter
from energyalign.experiments.train.run_directory import RunDirectory, open_run

Config = TypeVar("Config", bound=RunConfig)


class Experiment(ABC, Generic[Config]):
    """One cell with one seed. An application says what its steps are; a long tail has one.

    Parameters
    ----------
    config : RunConfig
    fabric : Fabric, optional
        Device, precision, processes; by default this process on the CPU.
    reporter : Reporter, optional
    workers : int, default 0
        Processes that read images; for sets that are not in memory.
    command : str, default ""
        The command line that asks for this run, for its record.
    """

    def __init__(
        self, config: Config, *, fabric: Fabric | None = None, reporter: Reporter | None = None, workers: int = 0,
        command: str = "",
    ) -> None:  # fmt: skip
        self.config, self.workers, self.command = config, workers, command
        self.fabric = Fabric(accelerator="cpu", devices=1, precision=config.precision) if fabric is None else fabric
        self.reporter = Reporter() if reporter is None else reporter

    @property
    @abstractmethod
    def cell(self) -> Cell:
        """What correctors may know before anything is trained."""

    @property
    @abstractmethod
    def facts(self) -> RunFacts:
        """What rows say of the run besides its config."""

    @abstractmethod
    def check_protocol(self) -> None:
        """Refuse settings that cannot be trained, before there is a run directory."""

    @abstractmethod
    def begin(self, run: RunDirectory) -> None:
        """Say what is run, and keep the record of its images."""

    @abstractmethod
    def steps(self, run: RunDirectory) -> Iterator[Trained]:
        """Train, or go on with, each step; what follows a step is done when the next is asked for."""

    @abstractmethod
    def test_images(self, step: int) -> ImageSet:
        """Those of all classes seen up to a step."""

    def check(self, correctors: Sequence[str]) -> dict[str, Corrector]:
        """The correctors of these names, if they can correct what will be trained.

        What cannot be is refused here, before there is a run directory, and before hours of training.
        """
        chosen = {name: find_corrector(name) for name in correctors}
        self.check_protocol()
        for name, corrector in chosen.items():
            if corrector.held_out > getattr(self.config, "held_out", corrector.held_out):
                raise EnergyAlignError(
                    f"{name} needs images that were held out from training, and this run holds out none: give it a "
                    "run of its own."
                )
            corrector.check(self.cell)
        return chosen

    def corrected(self, trained: Trained, corrector: Corrector, plan: EvidencePlan) -> Corrected:
        """What a corrector makes of the network; in the first of several steps most have nothing to correct."""
        if self.config.in_steps and trained.number < corrector.first_step:
            return Corrected(trained.network)
        return corrector.correct(trained, plan)

    def run(self, folder: Path, correctors: Sequence[str], *plans: EvidencePlan) -> list[Row]:
        """Train, or go on with, the run in this folder and measure every step under every corrector.

        With several plans, a corrector that reads evidence has a row for each of them. Returns the rows of these
        correctors; those of others that the folder has already stay in it.
        """
        chosen = self.check(correctors)
        rows: list[Row] = []
        with open_run(folder, self.config.to_json(), self.fabric) as run:
            run.note_command(self.command)
            self.begin(run)
            for trained in self.steps(run):
                rows += self._measure(trained, chosen, plans or (self.config.default_evidence,))
        return rows

    def _measure(
        self, trained: Trained, correctors: Mapping[str, Corrector], plans: Sequence[EvidencePlan]
    ) -> list[Row]:
        stored = read_rows(trained.run)
        measure = Measure(trained, self.test_images(trained.number), self.facts)
        rows = []
        for plan in plans:
            for name, corrector in correctors.items():
                if plan is not plans[0] and not corrector.reads_evidence:
                    continue  # it would only repeat itself
                known = measure.known(name, plan if corrector.reads_evidence else None, stored)
                row = self.fabric.broadcast(known)  # all measure, or none does
                if row is None:
                    read = plan if corrector.reads_evidence else None
                    row = measure.row(name, read, self.corrected(trained, corrector, plan))
                    store_row(trained.run, row)  # at once: the next corrector may train for hours
                rows.append(row)
        if self.config.in_steps:
            told = ", ".join(f"{row.corrector} {100 * row.overall:.1f}" for row in rows)
            self.reporter.note(f"After step {trained.number}, accuracy on {trained.n_seen} classes in %: {told}.")
        return rows
