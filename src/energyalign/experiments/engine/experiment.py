"""One run from settings to rows: open its folder, train, draw evidence, correct, measure, store."""

from __future__ import annotations

import hashlib
import platform
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import torch
import torchvision
from lightning_fabric import Fabric

import energyalign
from energyalign.core._io.regular import open_regular
from energyalign.core.arrays import Ints
from energyalign.core.calibration import measure_calibration
from energyalign.core.errors import CannotGoOn, EnergyAlignError, some_of
from energyalign.core.metrics import ClassScores
from energyalign.core.objectives import METRICS
from energyalign.core.shifts import Shifts
from energyalign.experiments.correctors import find_corrector
from energyalign.experiments.correctors.base import Corrected, Corrector, RunSetting
from energyalign.experiments.data.images import ImageSet, MemoryImages
from energyalign.experiments.data.verify import verify_images
from energyalign.experiments.engine.config import EvidencePlan, RunConfig
from energyalign.experiments.engine.outputs import Floats32, for_inference
from energyalign.experiments.engine.row import Numbers, Row, Settings
from energyalign.experiments.engine.stored import logits_file, predictions_file, read_rows, step_folder, store_row
from energyalign.experiments.engine.trained import Trained
from energyalign.experiments.nets.registry import DEFAULT_WEIGHTS
from energyalign.experiments.train.reporter import Reporter
from energyalign.experiments.train.run_directory import RunDirectory, open_run
from energyalign.experiments.train.tensor_file import load_arrays, save_arrays
from energyalign.pytorch.ranks import failing_together, own_part

Config = TypeVar("Config", bound=RunConfig)


class RunFacts(NamedTuple):
    """What rows say of their run besides its config; see `Row`. The manifest is a hash of the record of its images."""

    manifest: str
    memory: str | None = None
    fed_back: str | None = None
    order: tuple[int, ...] | None = None


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
    def train(self) -> ImageSet:
        """All training images of the run."""

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
            corrector.check(RunSetting(self.config, self.train))
        return chosen

    def run(self, folder: Path, correctors: Sequence[str], *plans: EvidencePlan) -> list[Row]:
        """Train, or go on with, the run in this folder and measure every step under every corrector.

        With several plans, a corrector that reads evidence has a row for each of them. Returns the rows of these
        correctors; those of others that the folder has already stay in it.
        """
        chosen = self.check(correctors)
        rows: list[Row] = []
        with open_run(folder, self.config.to_json(), self.fabric) as run:
            run.note_command(self.command)
            self._note_environment(run)
            self._keep_weights(run)
            self.begin(run)
            before = read_rows(run)
            for trained in self.steps(run):
                rows += self._measure(trained, chosen, plans or (self.config.default_evidence,))
            if run.writes:
                self._refuse_losses(run, before, rows)
        return rows

    def _refuse_losses(self, run: RunDirectory, before: Sequence[Row], rows: Sequence[Row]) -> None:
        """Raise if somebody has removed a row, or a file of one, since the run was opened; rows are stored again."""
        there = {row.key for row in read_rows(run)}
        lost = [row for row in {row.key: row for row in (*before, *rows)}.values() if row.key not in there]
        for row in lost:
            store_row(run, row)
        if lost:
            raise CannotGoOn(
                f"{run.path / 'rows.jsonl'} was removed or changed while its run went on. The rows that it lacked were "
                "written again: the same command goes on."
            )
        files: dict[Path, None] = {}  # each once
        for row in rows:
            folder = step_folder(run.path, row.step, in_steps=self.config.in_steps)
            files |= dict.fromkeys([logits_file(folder), predictions_file(folder, row.corrector, row.evidence)])
        gone = [path for path in files if not path.exists()]
        if gone:
            raise CannotGoOn(
                f"{some_of(gone)}: removed while the run went on. The same command makes what is missing again."
            )

    def _note_environment(self, run: RunDirectory) -> None:
        changes = run.note_environment(environment(self.fabric.device))
        if changes:
            self.reporter.note(
                f"{run.path} goes on in another environment: {'; '.join(changes)}. What is computed from here on can "
                "differ in its last digits from a run in one environment; rows name both."
            )

    def _keep_weights(self, run: RunDirectory) -> None:
        """Refuse to go on with a file of weights that is not the one that the run began with."""
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
                f"the weights in {path} have changed since the run in {run.path} began: get those of then back, or "
                "give another --out."
            )

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
                read = plan if corrector.reads_evidence else None
                row = self.fabric.broadcast(measure.known(name, read, stored))  # all measure, or none does
                if row is None:
                    row = measure.row(name, read, corrector.apply(trained, plan))
                    store_row(trained.run, row)  # at once: the next corrector may train for hours
                rows.append(row)
        if self.config.in_steps:
            accuracies = ", ".join(f"{row.corrector} {100 * row.balanced:.1f}" for row in rows)
            self.reporter.note(f"After step {trained.number}, accuracy on {trained.n_seen} classes in %: {accuracies}.")
        return rows


class Measure:
    """A trained network on test images: nothing else in an experiment sees them.

    It passes over them once, whatever the number of heads, and not at all if there is none to measure.
    """

    def __init__(self, trained: Trained, test: ImageSet, facts: RunFacts) -> None:
        self._trained, self._test, self._facts = trained, test, facts
        self._folder = self._folder_in(trained.run.path)

    def _folder_in(self, run: Path) -> Path:
        return step_folder(run, self._trained.number, in_steps=self._trained.config.in_steps)

    def known(self, name: str, plan: EvidencePlan | None, stored: Sequence[Row]) -> Row | None:
        """The row of an earlier process, if it is of this very network and all its files are there."""
        trained = self._trained
        key = (trained.number, name, plan)
        row = next((row for row in stored if (row.step, row.corrector, row.evidence) == key), None)
        if row is None or (row.network_sha256, row.versions) != (trained.network_sha256, versions()):
            return None
        files = (logits_file(self._folder), predictions_file(self._folder, name, plan))
        return row if all(map(self._is_whole, files)) else None

    def row(self, name: str, plan: EvidencePlan | None, corrected: Corrected) -> Row:
        """The result of a corrector; its predictions go to a file."""
        said = self._scores(corrected)
        if self._trained.run.writes:
            with self._trained.run.saving() as run:
                path = predictions_file(self._folder_in(run), name, plan)
                path.parent.mkdir(exist_ok=True)
                save_arrays(path, {"predictions": said.argmax(axis=1).astype(np.uint16)})
        return self._row(name, plan, corrected, said)

    def _scores(self, corrected: Corrected) -> Floats32:
        features, network = self._features, corrected.network
        if network.backbone is not self._trained.network.backbone:
            return self._trained.features(self._test, for_inference(network))
        return self._trained.scores(network.head, features)

    @cached_property
    def _features(self) -> Floats32:
        """Of the test images; the logits of the network as trained go to a file on the way."""
        trained = self._trained
        features = trained.features(self._test)
        if trained.run.writes:
            logits = trained.scores(trained.network.head, features)
            with trained.run.saving() as run:
                save_arrays(logits_file(self._folder_in(run)), {"logits": logits, "labels": self._test.labels})
        return features

    def _is_whole(self, path: Path) -> bool:
        """Whether the file is there and can be read; a damaged one is reported, and will be written again."""
        if not path.exists():
            return False
        try:
            load_arrays(path)
        except EnergyAlignError as error:
            self._trained.reporter.note(f"Measuring step {self._trained.number} again: {error}")
            return False
        return True

    def _row(self, name: str, plan: EvidencePlan | None, corrected: Corrected, said: Floats32) -> Row:
        trained, shifts, settings = self._trained, corrected.shifts, Settings(self._trained.config.to_json())
        counted = ClassScores(trained.n_seen).update(said, self._test.labels)
        # Classes that have no training images left are in none of the groups.
        by_count = counted.groups(trained.counts) if trained.counts.all() else {}
        return Row(
            cell=settings.name, learner=trained.config.learner.name, corrector=name, evidence=plan, seed=settings.seed,
            step=trained.number, n_steps=settings.n_steps, n_old=trained.n_old, n_new=trained.n_new,
            balanced=counted.balanced_accuracy, overall=counted.accuracy, top5=counted.balanced_top_k_accuracy,
            **_scored(said, self._test.labels, is_logits=corrected.gives_logits), many=_or_none(by_count.get("many")),
            medium=_or_none(by_count.get("medium")), few=_or_none(by_count.get("few")),
            old=_or_none(counted.mean_over(slice(trained.n_old))),
            new=counted.mean_over(slice(trained.n_old, trained.n_seen)),
            groups=tuple(map(counted.mean_over, trained.groups)), per_class=_listed(counted.per_class),
            counts=tuple(trained.counts.tolist()), test_counts=tuple(counted.total.tolist()),
            details=dict(corrected.details),
            concerns=(*(() if shifts is None else shifts.concerns), *corrected.concerns),
            network_sha256=trained.network_sha256, config=settings, versions=versions(),
            environments=tuple(trained.run.read_environments()), **_columns(shifts),
            **self._facts._asdict(),
        )  # fmt: skip


def refuse_unreadable(*sets: ImageSet) -> None:
    """An error that names an image that cannot be read, before hours are spent; ranks share the files."""
    with failing_together():
        for images in sets:
            if not isinstance(images, MemoryImages):  # they have been read
                verify_images(images.subset(own_part(range(len(images)))))


def versions() -> Mapping[str, str]:
    """Of everything that numbers may depend on."""
    return {
        "energyalign": energyalign.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__,
        "torchvision": torchvision.__version__,
    }


def environment(device: torch.device) -> dict[str, Any]:
    """The versions, and what else numbers depend on in their last digits."""
    is_cuda = device.type == "cuda"
    return {
        **versions(),
        "device": torch.cuda.get_device_name(device) if is_cuda else device.type,
        "cpu": f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}",
        "threads": torch.get_num_threads(),
    }


def _scored(scores: Floats32, labels: Ints, *, is_logits: bool) -> dict[str, Any]:
    """What a row says of predictions besides accuracies: F1, and calibration if the scores are logits."""
    weights = np.ones(len(labels))
    found = {"macro_f1": METRICS["f1_macro"].score(labels, scores.argmax(axis=1), weights, scores.shape[1])}
    if not is_logits:
        return found | dict.fromkeys(("ece", "nll", "brier"))
    calibration = measure_calibration(scores, labels)
    return found | {name: _or_none(getattr(calibration, name)) for name in ("ece", "nll", "brier")}


def _columns(shifts: Shifts | None) -> dict[str, Any]:
    """What a row says of the shifts; nothing for a corrector that does more than to add a number per class."""
    arrays = {"shifts": "values", "standard_errors": "standard_errors", "energies_before": "energies",
              "energies_after": "aligned_energies", "effective_samples": "effective_samples"}  # fmt: skip
    if shifts is None:
        return dict.fromkeys([*arrays, "estimator", "clusters", "n_clusters"])
    values = {column: getattr(shifts, name) for column, name in arrays.items()}
    listed = {column: None if value is None else _listed(value) for column, value in values.items()}
    clusters = {"clusters": shifts.clusters.name, "n_clusters": shifts.clusters.n_clusters}
    return listed | clusters | {"estimator": shifts.estimator}


def _listed(values: npt.NDArray[np.float64]) -> Numbers:
    """JSON has no NaN: what was not measured is missing."""
    return tuple(map(_or_none, values.tolist()))


def _or_none(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else value
