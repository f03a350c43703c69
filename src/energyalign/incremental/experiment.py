"""Application I from data to rows: step by step train, choose exemplars, correct, measure (Algorithm 1)."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from lightning.fabric import Fabric

from energyalign.core.errors import EnergyAlignError
from energyalign.data.manifest import Manifest
from energyalign.experiment.evidence import EvidencePlan
from energyalign.experiment.for_inference import for_inference
from energyalign.experiment.rows import Row, store_row
from energyalign.incremental.after_step import AfterStep
from energyalign.incremental.config import IncrementalConfig
from energyalign.incremental.correctors import Corrected, Corrector, find_corrector
from energyalign.incremental.finished_step import (
    FinishedStep,
    is_finished,
    load_step,
    refuse_gap,
    save_step,
)
from energyalign.incremental.finishing import finish_step
from energyalign.incremental.measure import Measure
from energyalign.incremental.memory import Memory, n_held_out
from energyalign.incremental.orders import order_hash
from energyalign.incremental.record import StepRecord
from energyalign.incremental.rows import row_key
from energyalign.incremental.step import Step
from energyalign.incremental.step_images import images_of_step
from energyalign.incremental.stream import ClassStream, load_stream
from energyalign.nets.network import Network, check_network
from energyalign.train.describe import described
from energyalign.train.loop import other_number
from energyalign.train.reporter import Reporter
from energyalign.train.run_directory import RunDirectory, opened


class IncrementalExperiment:
    """One cell with one seed: all steps of it.

    Parameters
    ----------
    config : IncrementalConfig
    data_root : path, optional
        Where the data set is.
    stream : ClassStream, optional
        What `load_stream` gave for a config with the same data, to read them once for many runs.
    fabric : Fabric, optional
        Device, precision, processes; by default this process on the CPU.
    reporter : Reporter, optional
    workers : int
        Processes that read images; for sets that are not in memory.
    command : str
        The command line that asks for this run, for its record.
    """

    def __init__(
        self,
        config: IncrementalConfig,
        *,
        data_root: str | Path | None = None,
        stream: ClassStream | None = None,
        fabric: Fabric | None = None,
        reporter: Reporter | None = None,
        workers: int = 0,
        command: str = "",
    ) -> None:
        self.config, self.workers, self.command = config, workers, command
        self.fabric = Fabric(accelerator="cpu", devices=1, precision=config.precision) if fabric is None else fabric
        self.reporter = Reporter() if reporter is None else reporter
        self.stream = load_stream(config, data_root) if stream is None else stream

    def check(self, correctors: Sequence[str]) -> dict[str, Corrector]:
        """The correctors of these names, if they can correct what will be trained.

        What cannot be is refused here, before there is a run directory, and before hours of training.
        """
        chosen = {name: find_corrector(name) for name in correctors}
        n_classes = len(self.stream.order)
        self.config.memory.check(n_classes)  # after the last step it has exemplars of all of them
        n_held_out(self.config.memory, n_classes, self.config.held_out)
        self.config.learner.check(self.config)
        check_network(self.config.backbone, self.config.head)
        for name, corrector in chosen.items():
            if corrector.held_out > self.config.held_out:
                raise EnergyAlignError(
                    f"{name} needs images that were held out from training, and this run holds out none: give it a "
                    "run of its own."
                )
            corrector.check(self.config)
        find_corrector(self.config.fed_back).check(self.config)
        return chosen

    def run(self, folder: Path, correctors: Sequence[str], *plans: EvidencePlan) -> list[Row]:
        """Train, or go on with, the run in this folder and measure every step under every corrector.

        With several plans, a corrector that looks at the evidence has a row for each of them. Returns the rows of
        these correctors; those of others that the folder has already stay in it.
        """
        chosen = self.check(correctors)
        manifest = self.stream.manifest(self.config.dataset)
        rows: list[Row] = []
        with opened(folder, self.config.to_json(), self.fabric) as run:
            run.note_command(self.command)
            self._begin(run, manifest)
            network: Network | None = None
            teacher: torch.nn.Module | None = None
            records: list[StepRecord] = []
            memory = Memory()
            finished: FinishedStep | None = None
            for number in range(1, self.stream.n_steps + 1):
                step = self._step(number, memory, run)
                network = self.config.learner.start(step, network)
                finished = self._finished(step, network, teacher, memory, finished)
                memory, records = finished.memory, [*records, finished.record]
                exemplars = self.stream.seen(memory.indices, number)
                after = AfterStep(step, network, exemplars, records, network_sha256=finished.network_sha256)
                rows += self._measure(after, chosen, plans or (self.config.evidence or EvidencePlan(),), manifest)
                if number < self.stream.n_steps and not self._is_finished(run, number + 1):
                    network, teacher = self._handed_on(after)
        return rows

    def _begin(self, run: RunDirectory, manifest: Manifest) -> None:
        config, stream = self.config, self.stream
        self.reporter.note(
            f"{config.name}, {config.learner.name}, {config.head} head, memory {config.memory}, fed back: "
            f"{config.fed_back}, seed {config.seed}: {len(stream.order)} classes in {stream.n_steps} steps, order "
            f"{config.order} ({order_hash(stream.order)[:12]}), manifest {manifest.short_hash}."
        )
        path = run.path / "manifest.json"
        is_known = self.fabric.broadcast(path.exists())
        if (is_known or stream.all_readable) and run.writes:  # it is written once all images could be read
            manifest.keep(path)

    def _step(self, number: int, memory: Memory, run: RunDirectory) -> Step:
        images = images_of_step(self.stream, number, memory, self.config)
        seen, held_out = self.stream.seen, images.all_held_out(memory)
        return Step(
            self.config, number, self.stream.sizes[:number], images.indices, seen(images.indices, number),
            images.new_held_out, seen(held_out, number) if len(held_out) else None, run, self.fabric, self.reporter,
            self.workers,
        )  # fmt: skip

    def _is_finished(self, run: RunDirectory, number: int) -> bool:
        """As the first of several processes sees it: others may see files of a shared folder later."""
        return bool(self.fabric.broadcast(is_finished(run, number)))

    def _finished(
        self, step: Step, network: Network, teacher: torch.nn.Module | None, memory: Memory, before: FinishedStep | None
    ) -> FinishedStep:
        """The step trained to its end, now or by an earlier process."""
        refuse_gap(step.run, step.number, self.stream.n_steps)
        if self._is_finished(step.run, step.number):
            return load_step(step.run, step.number, network)
        self.reporter.note(
            f"Step {step.number} of {self.stream.n_steps}: {step.n_new} new classes with "
            f"{int(step.is_new.sum()):,} images, {step.n_old} old ones with {int((~step.is_new).sum()):,}."
        )
        processes = self.fabric.world_size
        if before is not None and before.processes != processes:
            raise EnergyAlignError(other_number(step.run.path, before.processes, processes))
        self.config.learner.learn(step, network, teacher)
        return save_step(step.run, step.number, network, *finish_step(step, network, memory), processes=processes)

    def _handed_on(self, after: AfterStep) -> tuple[Network, torch.nn.Module | None]:
        """The network that the next step goes on from, and the teacher that it has."""
        corrector = find_corrector(self.config.fed_back)
        head = corrected(after, corrector, self.config.evidence or EvidencePlan()).head
        student = after.network
        if corrector.feedback == "student":
            student = copy.deepcopy(student)
            student.head = copy.deepcopy(head)
        if not self.config.learner.has_teacher:
            return student, None
        return student, for_inference(Network(after.network.backbone, head))

    def _measure(
        self, after: AfterStep, correctors: Mapping[str, Corrector], plans: Sequence[EvidencePlan], manifest: Manifest
    ) -> list[Row]:
        step = after.step
        stored = {row_key(row): row for row in step.run.read_rows()}
        measure = Measure(after, self.stream, manifest)
        rows = []
        for plan in plans:
            for name, corrector in correctors.items():
                if plan is not plans[0] and not corrector.reads_evidence:
                    continue  # it would only repeat itself
                evidence = described(plan) if corrector.reads_evidence else None
                about = {"corrector": name, "evidence": evidence, "step": step.number}
                row = self.fabric.broadcast(measure.known(about, stored))  # all measure, or none does
                if row is None:
                    row = about | measure.row(about, corrected(after, corrector, plan))
                    store_row(step.run, row, row_key)
                rows.append(row)
        told = ", ".join(f"{row['corrector']} {100 * row['overall']:.1f}" for row in rows)
        self.reporter.note(f"After step {step.number}, accuracy on {step.n_seen} classes in %: {told}.")
        return rows


def corrected(after: AfterStep, corrector: Corrector, plan: EvidencePlan) -> Corrected:
    """What the corrector makes of the network; in the first step most have nothing to correct."""
    if after.step.number < corrector.first_step:
        return Corrected(after.copied_head())
    return corrector.correct(after, plan)
