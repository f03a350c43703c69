"""What a user asks of class-incremental runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.correctors import STANDARD_IN_STEPS
from energyalign.experiments.engine.method import Method
from energyalign.experiments.engine.plan import EvidencePlan
from energyalign.experiments.engine.request import Planned, RunRequest
from energyalign.experiments.incremental.config import IncrementalConfig
from energyalign.experiments.incremental.learners import find_learner
from energyalign.experiments.incremental.memory_plan import MemoryPlan
from energyalign.experiments.incremental.methods import METHODS, config_of, find_method, row_of
from energyalign.experiments.incremental.presets import IncrementalPreset, preset_for, selection_of

if TYPE_CHECKING:
    from energyalign.experiments.incremental.experiment import IncrementalExperiment
    from energyalign.experiments.incremental.stream import ClassStream


@dataclass(frozen=True, kw_only=True)
class IncrementalRequest(RunRequest):
    """Class-incremental runs.

    Attributes
    ----------
    steps : int or None
    order, subset : str or None
        Of the classes.
    learner, memory, fed_back : str or None
        The slots of a method of one's own, or a change of all methods asked for.
    """

    command: ClassVar[str] = "incremental"
    training_options: ClassVar[tuple[str, ...]] = (*RunRequest.training_options, "order")

    steps: int | None = None
    order: str | None = None
    subset: str | None = None
    learner: str | None = None
    memory: str | None = None
    fed_back: str | None = None

    @cached_property
    def preset(self) -> IncrementalPreset:
        """The cell, changed as the options say."""
        preset = preset_for(self.dataset, self.steps)
        preset = preset.quick() if self.quick else preset
        if self.subset not in (None, preset.subset):  # other classes are another cell, and none of the paper's
            preset = replace(preset, name=f"{preset.name}-{self.subset.replace(':', '-')}", subset=self.subset)
        return replace(preset, **self.changed(preset), order=self.order or preset.order)

    def load(self) -> ClassStream:
        """The same for all trainings of the cell."""
        from energyalign.experiments.data.sources import open_source
        from energyalign.experiments.incremental.stream import make_stream

        source, preset = open_source(self.preset.dataset, self.data_root), self.preset
        return make_stream(
            source.load("train"), source.load("test"), subset=preset.subset, order=preset.order, n_steps=preset.n_steps
        )

    def load_for(self, config: IncrementalConfig) -> ClassStream:
        """The classes of a finished run."""
        from energyalign.experiments.incremental.stream import load_stream

        return load_stream(config, self.data_root)

    def plan(self, data: ClassStream | None = None) -> list[Planned]:
        """A training for each learner, head, memory and what is fed back."""
        n_train, n_classes = (0, 1) if data is None else (len(data.train), data.train.n_classes)
        default_memory = self.preset.memory_for(n_train, n_classes)
        groups: dict[IncrementalConfig, list[str]] = {}
        for method in self._methods():
            config = self._config(method, default_memory)
            # The raw network is the control of every other row, and costs nothing.
            groups.setdefault(config, ["raw"]).append(method.corrector)
        extra = self._extra()
        return [
            Planned(config, tuple(dict.fromkeys([*correctors, *extra])), _folder(config))
            for config, correctors in groups.items()
        ]

    def finished(self) -> Planned:
        """The networks of --from; only correctors can be new."""
        from energyalign.experiments.incremental.finished_step import is_finished

        run, stored = self.stored_config()
        config = IncrementalConfig.from_json(stored)
        names = (config.dataset, config.name)
        if self.dataset not in names and selection_of(self.dataset) != (config.dataset, config.subset):
            raise EnergyAlignError(f"{run.path} is a run on {config.dataset}, not on {self.dataset}.")
        if not all(is_finished(run, step) for step in range(1, config.n_steps + 1)):
            raise EnergyAlignError(f"the run in {run.path} is not finished: run the command that began it first.")
        others = ("steps", "subset", "method", "learner", "memory", "fed_back")
        self.refuse_training(run.path, *others, instead="; only --corrector can be new")
        usual = ("raw",) if config.memory.selection == "none" else STANDARD_IN_STEPS
        return Planned(config, tuple(dict.fromkeys(["raw", *(self.corrector or usual)])), str(run.path))

    def experiment(self, config: IncrementalConfig, data: ClassStream, **others: Any) -> IncrementalExperiment:
        """The experiment of one config."""
        from energyalign.experiments.incremental.experiment import IncrementalExperiment

        return IncrementalExperiment(config, stream=data, **others)

    def _methods(self) -> list[Method]:
        """The rows: those with a name, or one for each corrector of the composition."""
        if self.method:
            if self.learner:
                raise EnergyAlignError("a method has a learner of its own: give --method or --learner, not both.")
            return [find_method(name) for name in (METHODS if "all" in self.method else self.method)]
        row = row_of(find_learner(self.learner or "distill").name)._replace(head=None)
        return [row._replace(corrector=corrector) for corrector in self.corrector or [row.corrector]]

    def _extra(self) -> tuple[str, ...]:
        """Correctors behind every run: those asked for beside methods, or the standard ones if nothing was asked."""
        if self.method:
            return self.corrector
        return () if self.corrector or self.learner else STANDARD_IN_STEPS

    def _config(self, method: Method, default_memory: int) -> IncrementalConfig:
        return config_of(
            method._replace(head=self.head or method.head), self.preset, seed=self.seed[0],
            memory=self._memory(method, default_memory), fed_back=self.fed_back, evidence=self.evidence_plans[0],
            **self.given("scale", "learned_scale", "precision", "compile"),
        )  # fmt: skip

    def _memory(self, method: Method, default_total: int) -> MemoryPlan:
        """That of the method, changed as --memory says. Methods that keep nothing, or everything, have no number."""
        own = MemoryPlan.parse(method.memory, default_total)
        if self.memory is None:
            return own
        if self.memory.isdecimal():
            return MemoryPlan(own.selection, int(self.memory)) if own.has_number else own
        return MemoryPlan.parse(self.memory, default_total)


def _folder(config: IncrementalConfig) -> str:
    """What tells a training from the others of the same cell."""
    words = [config.learner.name, "" if config.head == "cosine" else config.head]
    words += [str(config.memory).replace(":", "-"), "" if config.fed_back == "raw" else config.fed_back]
    words += ["held-out"] if config.held_out and config.fed_back == "raw" else []
    if config.evidence not in (None, EvidencePlan()):  # another teacher
        words += [config.evidence.policy, str(config.evidence.per_class)]
    return "-".join(filter(None, words))
