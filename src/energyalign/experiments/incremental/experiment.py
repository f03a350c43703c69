"""Application I, class-incremental learning, step by step (Algorithm 1)."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from energyalign.core.errors import EnergyAlignError, count_of
from energyalign.experiments.correctors import find_corrector
from energyalign.experiments.correctors.base import RunSetting
from energyalign.experiments.data.images import ImageSet
from energyalign.experiments.data.manifest import Manifest
from energyalign.experiments.engine.experiment import Experiment
from energyalign.experiments.engine.measurement import RunFacts
from energyalign.experiments.engine.outputs import for_inference
from energyalign.experiments.engine.trained import Trained, network_for, refuse_negative_features
from energyalign.experiments.incremental.config import IncrementalConfig
from energyalign.experiments.incremental.memory import Memory, n_held_out
from energyalign.experiments.incremental.orders import order_hash
from energyalign.experiments.incremental.step import (
    FinishedStep,
    Step,
    StepRecord,
    finish_step,
    is_finished,
    load_step,
    refuse_gap,
    save_step,
)
from energyalign.experiments.incremental.stream import ClassStream, images_of_step, load_stream
from energyalign.experiments.nets.network import Network
from energyalign.experiments.train.loop import other_number
from energyalign.experiments.train.run_directory import RunDirectory


class IncrementalExperiment(Experiment[IncrementalConfig]):
    """A class-incremental run, with all its steps.

    Parameters
    ----------
    config : IncrementalConfig
    data_root : path, optional
        Directory of the data set.
    stream : ClassStream, optional
        The result of `load_stream` for a config with the same data, to load them once for many runs.
    **others
        See `Experiment`.
    """

    def __init__(
        self, config: IncrementalConfig, *, data_root: str | Path | None = None, stream: ClassStream | None = None,
        **others: Any,
    ) -> None:  # fmt: skip
        super().__init__(config, **others)
        self.stream = load_stream(config, data_root) if stream is None else stream

    @property
    def train(self) -> ImageSet:
        return self.stream.train

    @cached_property
    def manifest(self) -> Manifest:
        return self.stream.manifest(self.config.dataset)

    @property
    def facts(self) -> RunFacts:
        return RunFacts(self.manifest.sha256, str(self.config.memory), self.config.fed_back, self.stream.order)

    def check_protocol(self) -> None:
        n_classes = len(self.stream.order)
        self.config.memory.check(n_classes)  # after the last step it holds exemplars of all classes
        n_held_out(self.config.memory, n_classes, self.config.held_out)
        learner = self.config.learner
        learner.check(self.config)
        few = self.stream.seen(self.stream.new_indices(1)[:8], 1)
        network = network_for(self.config, few, n_classes)
        if learner.needs_no_negative_features:
            why = f"{learner.name} clips weights at 0, which needs features that are not negative"
            refuse_negative_features(network, few, why)
        fed_back = self.config.fed_back
        find_corrector(fed_back).check(RunSetting(self.config, self.train, fed_back))

    def begin(self, run: RunDirectory) -> None:
        config, stream = self.config, self.stream
        self.reporter.note(
            f"{config.name}, {config.learner.name}, {config.head} head, memory {config.memory}, fed back: "
            f"{config.fed_back}, seed {config.seed}: {len(stream.order)} classes in {stream.n_steps} steps, order "
            f"{config.order} ({order_hash(stream.order)[:12]}), manifest {self.manifest.short_hash}."
        )
        is_known = self.fabric.broadcast((run.path / "manifest.json").exists())
        if (is_known or stream.all_readable) and run.writes:  # the manifest is written after all images were read
            with run.saving() as folder:
                self.manifest.keep(folder / "manifest.json")

    def steps(self, run: RunDirectory) -> Iterator[Trained]:
        """Yield each step, trained now or by an earlier process."""
        network: Network | None = None
        teacher: torch.nn.Module | None = None
        records: list[StepRecord] = []
        memory = Memory()
        finished: FinishedStep | None = None
        for number in range(1, self.stream.n_steps + 1):
            step = self._make_step(number, memory, run)
            network = self.config.learner.start(step, network)
            finished = self._train_or_load(step, network, teacher, memory, finished)
            memory, records = finished.memory, [*records, finished.record]
            trained = Trained(
                network=network, ground=step, evidence_seed=step.seed("evidence"), run=run, fabric=self.fabric,
                reporter=self.reporter, network_sha256=finished.network_sha256, number=number, sizes=step.sizes,
                held_out=step.held_out, exemplars=self.stream.seen(memory.indices, number), records=tuple(records),
            )  # fmt: skip
            yield trained
            if number < self.stream.n_steps and not self._is_finished(run, number + 1):
                network, teacher = self._hand_on(trained)

    def test_images(self, step: int) -> ImageSet:
        return self.stream.test_images(step)

    def _make_step(self, number: int, memory: Memory, run: RunDirectory) -> Step:
        images = images_of_step(self.stream, number, memory, self.config)
        seen, held_out = self.stream.seen, images.all_held_out(memory)
        return Step(
            self.config, number, self.stream.sizes[:number], images.indices, seen(images.indices, number),
            images.new_held_out, seen(held_out, number) if len(held_out) else None, run, self.fabric, self.reporter,
            self.workers,
        )  # fmt: skip

    def _is_finished(self, run: RunDirectory, number: int) -> bool:
        """Ask the first process, because others may see files of a shared folder later."""
        return bool(self.fabric.broadcast(is_finished(run, number)))

    def _train_or_load(
        self, step: Step, network: Network, teacher: torch.nn.Module | None, memory: Memory, before: FinishedStep | None
    ) -> FinishedStep:
        """Train the step, or load it if an earlier process did."""
        refuse_gap(step.run, step.number, self.stream.n_steps)
        if self._is_finished(step.run, step.number):
            return load_step(step.run, step.number, network)
        self.reporter.note(
            f"Step {step.number} of {self.stream.n_steps}: {count_of(step.n_new, 'new class')} with "
            f"{count_of(int(step.is_new.sum()), self.train.unit)}, {step.n_old} old ones with "
            f"{int((~step.is_new).sum()):,}."
        )
        processes = self.fabric.world_size
        if before is not None and before.processes != processes:
            raise EnergyAlignError(other_number(step.run.path, before.processes, processes))
        self.config.learner.learn(step, network, teacher)
        return save_step(step.run, step.number, network, *finish_step(step, network, memory), processes=processes)

    def _hand_on(self, trained: Trained) -> tuple[Network, torch.nn.Module | None]:
        """Return the network that the next step continues from, and its teacher."""
        corrector = find_corrector(self.config.fed_back)
        corrected = corrector.apply(trained, self.config.default_evidence).network
        student = trained.network
        if corrector.feedback == "student":
            student = copy.deepcopy(student)
            student.head = copy.deepcopy(corrected.head)
        if not self.config.learner.has_teacher:
            return student, None
        return student, for_inference(corrected)
