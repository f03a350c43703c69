"""From a request to rows: open each run directory, train, draw evidence, correct, measure, store."""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from lightning_fabric import Fabric

from energyalign.core._io.regular import open_regular
from energyalign.core.errors import CannotGoOn, EnergyAlignError, count_of, some_of
from energyalign.experiments.correctors import find_corrector
from energyalign.experiments.correctors.base import Corrector, RunSetting
from energyalign.experiments.data.images import ImageSet, MemoryImages
from energyalign.experiments.data.manifest import Manifest
from energyalign.experiments.data.verify import verify_images
from energyalign.experiments.engine.config import EvidencePlan, RunConfig, stored_place
from energyalign.experiments.engine.measurement import Measurement, RunFacts, environment
from energyalign.experiments.engine.request import Planned, RunRequest
from energyalign.experiments.engine.row import Row
from energyalign.experiments.engine.stored import logits_file, predictions_file, read_rows, step_folder, store_row
from energyalign.experiments.engine.trained import Trained
from energyalign.experiments.nets.registry import DEFAULT_WEIGHTS
from energyalign.experiments.train.reporter import Reporter
from energyalign.experiments.train.run_directory import RunDirectory, open_run
from energyalign.pytorch.ranks import failing_together, own_part

Config = TypeVar("Config", bound=RunConfig)

MakeReporter = Callable[[str, Path | None], Reporter]
"""Function from the title of a training and the folder for its curves (None for no curves) to a reporter."""


@dataclass(frozen=True)
class Work:
    """All runs of a request, by run directory, and the data that they share."""

    request: RunRequest
    data: Any
    runs: dict[Path, Planned]

    @classmethod
    def of(cls, request: RunRequest) -> Self:
        """Read the data and plan one run for each training and seed; with --from, take the finished runs."""
        if request.source:
            finished = request.finished()
            return cls(request, request.load_for(finished[0].config), {Path(run.folder): run for run in finished})
        out, data = request.out_folder, request.load()
        runs = {
            out / run.folder / f"seed-{seed}": run._replace(config=replace(run.config, seed=seed))
            for run in request.plan(data)
            for seed in request.seeds
        }
        return cls(request, data, runs)

    @property
    def precision(self) -> str:
        """Precision of all runs."""
        return next(iter(self.runs.values())).config.precision

    def do(self, *, fabric: Fabric | None, reporter_of: MakeReporter, command: str = "") -> list[Row]:
        """Train what is missing, measure, and return the rows. All runs are checked before the first one starts."""
        experiments = {}
        for folder, run in self.runs.items():
            # Behind a finished long-tailed run, a corrector may train a second stage; for class-incremental runs none
            # does.
            has_curves = not self.request.source or not run.config.in_steps
            experiments[folder] = self.request.experiment(
                run.config, self.data, fabric=fabric, workers=self.request.workers, command=command,
                reporter=reporter_of(_title(run), folder / self.request.log if has_curves else None),
            )  # fmt: skip
            experiments[folder].check(run.correctors)
        plans = self.request.evidence_plans
        return [
            row
            for folder, experiment in experiments.items()
            for row in experiment.run(folder, self.runs[folder].correctors, *plans)
        ]

    def __str__(self) -> str:
        """Describe what is run, and where."""
        configs = [run.config for run in self.runs.values()]
        heads = sorted({config.head for config in configs})
        head = f"{heads[0]} head" if len(heads) == 1 else f"heads {', '.join(heads)}"
        each = " a step" if configs[0].in_steps else ""
        backbones = ", ".join(sorted({config.backbone for config in configs}))
        epochs = count_of(configs[0].recipe.epochs, "epoch")
        if self.request.source:
            where = f"{'run' if len(self.runs) == 1 else 'runs'} in {', '.join(map(str, self.runs))}"
        else:
            where = f"runs in {self.request.out_folder}"
        return f"{configs[0].name}, {backbones}, {head}, {epochs}{each}; {where}"


def _title(run: Planned) -> str:
    config = run.config
    training = run.folder if config.in_steps else f"{config.learner.name} ({config.head})"
    return f"{config.name} {training} seed {config.seed}"


def refuse_other_settings(
    accelerator: str, precision: Any, *, devices: int = 1, nodes: int = 1, strategy: str = "auto"
) -> None:
    """Raise if Lightning would follow its environment variables instead of our options, which the rows record."""
    ours = {"PRECISION": precision, "DEVICES": devices, "NUM_NODES": nodes, "STRATEGY": strategy}
    if accelerator != "auto":
        ours["ACCELERATOR"] = accelerator
    for name, value in ours.items():
        theirs = os.environ.get(f"LT_{name}", str(value))
        if theirs != str(value):
            raise EnergyAlignError(f"LT_{name} is {theirs} in the environment, but this run has {value}: unset it.")


class Experiment(ABC, Generic[Config]):
    """One run: a cell with one seed. Each application defines its steps; a long tail has one.

    Parameters
    ----------
    config : RunConfig
    fabric : Fabric, default None
        Device, precision and processes. None is this process on the CPU.
    reporter : Reporter, default None
        None reports nothing.
    workers : int, default 0
        Processes that read images, for sets that are not in memory.
    command : str, default ""
        The command line of this run, for its record.
    """

    def __init__(
        self, config: Config, *, fabric: Fabric | None = None, reporter: Reporter | None = None, workers: int = 0,
        command: str = "",
    ) -> None:  # fmt: skip
        self.config, self.workers, self.command = config, workers, command
        if fabric is None:
            refuse_other_settings("cpu", config.precision)
            fabric = Fabric(accelerator="cpu", devices=1, precision=config.precision)
        self.fabric = fabric
        self.reporter = Reporter() if reporter is None else reporter

    @property
    @abstractmethod
    def manifest(self) -> Manifest:
        """The data of the run."""

    @property
    @abstractmethod
    def train(self) -> ImageSet:
        """All training images of the run."""

    @property
    @abstractmethod
    def facts(self) -> RunFacts:
        """Fields of the rows that are not in the config."""

    @abstractmethod
    def check_protocol(self) -> None:
        """Raise if these settings cannot be trained."""

    @property
    def validation(self) -> ImageSet | None:
        """Validation images, if the data set has any."""
        return None

    @abstractmethod
    def begin(self, run: RunDirectory) -> None:
        """Report what is run and save the manifest."""

    @abstractmethod
    def steps(self, run: RunDirectory) -> Iterator[Trained]:
        """Train or resume step by step. Each step is measured before the next one starts."""

    @abstractmethod
    def test_images(self, step: int) -> ImageSet:
        """Return the test images of all classes seen up to a step."""

    def check(self, correctors: Sequence[str]) -> dict[str, Corrector]:
        """Return the correctors of these names, or raise if one cannot correct what will be trained.

        Call it before the run directory exists and before hours of training.
        """
        chosen = {name: find_corrector(name) for name in correctors}
        self.check_protocol()
        for name, corrector in chosen.items():
            corrector.check(RunSetting(self.config, self.train, name))
            served = self.config.held_out or (corrector.takes_validation and self.validation is not None)
            if corrector.held_out and not served:
                own, share = "give it a run of its own", f"train with --held-out {corrector.held_out:g}"
                raise EnergyAlignError(
                    f"{name} needs images that were held out from training, and this run holds out none: "
                    f"{own if self.config.in_steps else share}."
                )
        return chosen

    def run(self, folder: Path, correctors: Sequence[str], *plans: EvidencePlan) -> list[Row]:
        """Train or resume the run in this folder, and measure every step with every corrector.

        A corrector that reads evidence gets one row for each plan. Returns the rows of these correctors; rows of others
        stay in the folder.
        """
        chosen = self.check(correctors)
        rows: list[Row] = []
        self.config = replace(self.config, **stored_place(RunDirectory(folder), self.config.dataset))
        trained_files: set[Path] = set()
        with open_run(folder, self.config.to_json(), self.fabric) as run:
            run.note_command(self.command)
            self._note_environment(run)
            self._check_weights(run)
            self.begin(run)
            before = read_rows(run)
            for trained in self.steps(run):
                trained_files |= self._files(run, trained.number)
                rows += self._measure(trained, chosen, plans or (self.config.default_evidence,))
            if run.writes:
                self._refuse_losses(run, before, rows)
                removed = sorted(path for path in trained_files if not path.exists())
                if removed:
                    raise CannotGoOn(
                        f"these files were removed during the run: {some_of(removed)}. Put them back, or remove "
                        f"{run.path} to train again."
                    )
                self._refuse_other_manifest(run)
        return rows

    def _refuse_other_manifest(self, run: RunDirectory) -> None:
        """Raise if the manifest was changed while the run was open, after it is written again."""
        path = run.path / "manifest.json"
        try:
            if path.exists():
                self.manifest.keep(path)
        except EnergyAlignError as error:
            self.manifest.save(path)
            raise CannotGoOn(
                f"{path} was changed during its run. It was written again: the same command resumes it."
            ) from error

    def _files(self, run: RunDirectory, step: int) -> set[Path]:
        """Return the files of the run, and the files that the training of a step wrote."""
        folders = {run.path, run.checkpoints, step_folder(run.path, step, in_steps=self.config.in_steps)}
        return {path for folder in folders for path in folder.glob("*") if path.suffix and path.is_file()}

    def _note_environment(self, run: RunDirectory) -> None:
        changes = run.note_environment(environment(self.fabric.device))
        if changes:
            self.reporter.note(
                f"{run.path} is resumed in another environment: {'; '.join(changes)}. Results from here on can "
                "differ in their last digits from a run in one environment; rows record both."
            )

    def _check_weights(self, run: RunDirectory) -> None:
        """Record the SHA-256 of the initial weights, or raise if the file has changed since the run began."""
        path = self.config.weights
        if path is None or path == DEFAULT_WEIGHTS:
            return
        with open_regular(path) as stream:
            here = {"sha256": hashlib.file_digest(stream, "sha256").hexdigest()}
        before = run.read_json("weights.json")
        if before is None:
            run.write_json("weights.json", here)
        elif before != here:
            raise EnergyAlignError(
                f"the weights in {path} have changed since the run in {run.path} began: restore them, or give another "
                "--out."
            )

    def _measure(
        self, trained: Trained, correctors: Mapping[str, Corrector], plans: Sequence[EvidencePlan]
    ) -> list[Row]:
        stored = read_rows(trained.run)
        measurement = Measurement(trained, self.test_images(trained.number), self.facts)
        rows = []
        for plan in plans:
            for name, corrector in correctors.items():
                if plan is not plans[0] and not corrector.reads_evidence:
                    continue  # the row would be the same
                read = plan if corrector.reads_evidence else None
                row = self.fabric.broadcast(measurement.find_row(name, read, stored))  # all ranks measure, or none
                if row is None:
                    row = measurement.measure(name, read, corrector.apply(trained, plan))
                    store_row(trained.run, row)  # store the row now: the next corrector may train for hours
                rows.append(row)
        if self.config.in_steps:
            accuracies = ", ".join(f"{row.corrector} {100 * row.balanced:.1f}" for row in rows)
            self.reporter.note(f"After step {trained.number}, accuracy on {trained.n_seen} classes in %: {accuracies}.")
        return rows

    def _refuse_losses(self, run: RunDirectory, before: Sequence[Row], rows: Sequence[Row]) -> None:
        """Raise if rows or their files were removed while the run was open; lost rows are stored again first."""
        there = {row.key for row in read_rows(run)}
        lost = [row for row in {row.key: row for row in (*before, *rows)}.values() if row.key not in there]
        for row in lost:
            store_row(run, row)
        if lost:
            raise CannotGoOn(
                f"{run.path / 'rows.jsonl'} was removed or changed during its run. The lost rows were written again: "
                "the same command resumes it."
            )
        files: dict[Path, None] = {}  # an ordered set
        for row in rows:
            folder = step_folder(run.path, row.step, in_steps=self.config.in_steps)
            files |= dict.fromkeys([logits_file(folder), predictions_file(folder, row.corrector, row.evidence)])
        missing = [path for path in files if not path.exists()]
        if missing:
            raise CannotGoOn(
                f"these files were removed during the run: {some_of(missing)}. The same command writes them again."
            )


def refuse_unreadable(*sets: ImageSet) -> None:
    """Decode every image file, and raise if one cannot be read. The ranks of a process group share the files."""
    with failing_together():
        for images in sets:
            if not isinstance(images, MemoryImages):  # images in memory were decoded on loading
                verify_images(images.subset(own_part(range(len(images)))))
