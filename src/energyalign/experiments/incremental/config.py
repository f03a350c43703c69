"""Configs and requests of class-incremental runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.correctors import STANDARD_IN_STEPS, find_corrector
from energyalign.experiments.engine.config import EvidencePlan, Method, RunConfig
from energyalign.experiments.engine.request import Planned, RunRequest
from energyalign.experiments.incremental.learners import LEARNERS, FineTuning, find_learner
from energyalign.experiments.incremental.memory import MemoryPlan
from energyalign.experiments.incremental.methods import METHODS, find_method
from energyalign.experiments.incremental.orders import read_order
from energyalign.experiments.incremental.presets import IncrementalPreset, preset_for, selection_of
from energyalign.experiments.train.recipe import Recipe

if TYPE_CHECKING:
    from energyalign.experiments.incremental.experiment import IncrementalExperiment
    from energyalign.experiments.incremental.stream import ClassStream
    from energyalign.experiments.train.run_directory import RunDirectory


@dataclass(frozen=True, kw_only=True)
class IncrementalConfig(RunConfig):
    """The settings of one training over all steps.

    Attributes
    ----------
    fed_back : str
        The corrector whose network is the teacher or student of the next step; ``raw`` for none.
    held_out : float
        Share of the exemplars that is held out from training, with as many images of each new class, for the corrector
        that is fed back or one that is measured.
    subset, order : str
        Which classes come, and in which order.
    recipe : Recipe
        The recipe of each step.
    lambda_base : float
        Weight of distillation in the limit of many old classes.
    weight_decay_factor : float
        Eta: step b has the weight decay of the recipe times ``eta ** (b - 1)``.
    evidence : EvidencePlan or None
        The evidence of the corrector that is fed back, if it reads any.
    """

    in_steps: ClassVar[bool] = True

    learner: FineTuning
    memory: MemoryPlan
    fed_back: str
    held_out: float
    subset: str
    order: str
    n_steps: int
    lambda_base: float
    weight_decay_factor: float
    evidence: EvidencePlan | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.lambda_base <= 1:
            raise EnergyAlignError(f"lambda_base must be between 0 and 1, got {self.lambda_base:g}.")

    @property
    def default_evidence(self) -> EvidencePlan:
        """The evidence of the corrector that is fed back, if it reads any."""
        return self.evidence or super().default_evidence

    @classmethod
    def from_preset(
        cls, preset: IncrementalPreset, learner: FineTuning, *, seed: int, memory: MemoryPlan, corrector: str = "raw",
        fed_back: str | None = None, evidence: EvidencePlan | None = None, **options: Any,
    ) -> IncrementalConfig:  # fmt: skip
        """Make the config of a cell, with the changes of learner and corrector.

        The corrector is fed back if it changes the teacher or student of the next step and the learner has one; other
        rows share one run. `fed_back` names another corrector to feed back. `options` are further fields, such as
        `scale`.
        """
        acting = find_corrector(corrector)
        if fed_back is None:
            feeds_back = acting.feedback == "student" or (acting.feedback == "teacher" and learner.has_teacher)
            fed_back = corrector if feeds_back else "raw"
        teaching = find_corrector(fed_back)
        if fed_back != "raw" and teaching.feedback != "student" and not learner.has_teacher:
            raise EnergyAlignError(
                f"{fed_back} cannot be fed back: the learner {learner.name} has no teacher. Leave out --fed-back, or "
                "choose a learner with a teacher, such as distill."
            )
        return cls.of_cell(
            preset, learner, memory=memory, fed_back=fed_back, held_out=max(acting.held_out, teaching.held_out),
            subset=preset.subset, order=preset.order, n_steps=preset.n_steps, lambda_base=preset.lambda_base,
            weight_decay_factor=preset.weight_decay_factor,
            evidence=(evidence or EvidencePlan.default_for(preset.dataset)) if teaching.reads_evidence else None,
            seed=seed, **options,
        )  # fmt: skip

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> IncrementalConfig:
        """Restore what `to_json` returned."""
        return cls.restore(value, LEARNERS, MemoryPlan)

    def recipe_of(self, step: int) -> Recipe:
        """Return the recipe of step 1, 2, ..., with its weight decay."""
        optimizer: Any = self.recipe.optimizer
        factor = 1.0 if self.learner.constant_weight_decay else self.weight_decay_factor
        decay = optimizer.weight_decay * factor ** (step - 1)
        return replace(self.recipe, optimizer=replace(optimizer, weight_decay=decay))


def config_of(
    method: Method, preset: IncrementalPreset, *, seed: int, memory: MemoryPlan | None = None, **others: Any
) -> IncrementalConfig:  # fmt: skip
    """Make the config of a method in a cell, by default with its memory; see `IncrementalConfig.from_preset`."""
    return IncrementalConfig.from_preset(
        preset.with_head(method.head), find_learner(method.learner), seed=seed,
        memory=memory or MemoryPlan.parse(method.memory, preset.memory_for(0, 1)),
        corrector=method.corrector, **others,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class IncrementalRequest(RunRequest):
    """A request for class-incremental runs.

    Attributes
    ----------
    steps : int or None
        Number of steps.
    order, subset : str or None
        Order of the classes, and which take part.
    learner, memory, fed_back : str or None
        Parts of your own method, or changes of all requested methods.
    """

    command: ClassVar[str] = "incremental"
    config_class: ClassVar[type[IncrementalConfig]] = IncrementalConfig
    training_options: ClassVar[tuple[str, ...]] = (*RunRequest.training_options, "order")
    refused_with_source: ClassVar[tuple[str, ...]] = ("steps", "subset", "method", "learner", "memory", "fed_back")

    steps: int | None = None
    order: str | None = None
    subset: str | None = None
    learner: str | None = None
    memory: str | None = None
    fed_back: str | None = None

    @cached_property
    def preset(self) -> IncrementalPreset:
        """The cell with the options applied."""
        preset = self.change(preset_for(self.dataset, self.steps))
        if self.subset not in (None, preset.subset):  # other classes are another cell, which the paper does not have
            preset = replace(preset, name=f"{preset.name}-{self.subset.replace(':', '-')}", subset=self.subset)
        return replace(preset, order=preset.order if self.order is None else read_order(self.order))

    def load_for(self, config: IncrementalConfig) -> ClassStream:
        """Load the source and arrange its classes."""
        from energyalign.experiments.incremental.stream import load_stream

        return load_stream(config, self.data_root, self.own_source)

    def experiment(self, config: IncrementalConfig, data: ClassStream, **others: Any) -> IncrementalExperiment:
        from energyalign.experiments.incremental.experiment import IncrementalExperiment

        return IncrementalExperiment(config, stream=data, **others)

    def plan(self, data: ClassStream | None = None) -> list[Planned]:
        """Plan one training for each combination of learner, head, memory and fed-back corrector."""
        n_train, n_classes = (0, 1) if data is None else (len(data.train), data.train.n_classes)
        preset = self.for_images(self.preset, None if data is None else data.train)
        default_memory = preset.memory_for(n_train, n_classes)
        groups: dict[IncrementalConfig, list[str]] = {}
        for method in self._methods():
            config = config_of(
                method._replace(head=self.head or method.head), preset, seed=self.seed[0],
                memory=self._memory(method, default_memory), fed_back=self.fed_back, evidence=self.evidence_plans[0],
                **self.get_options(*self.config_options),
            )  # fmt: skip
            # The raw network is the control of every other row, and costs nothing.
            groups.setdefault(config, ["raw"]).append(method.corrector)
        # Every run also gets the correctors given beside methods, or the standard ones if nothing was given.
        composed = bool(self.corrector or self.learner)
        extra = self.corrector if self.method else () if composed else STANDARD_IN_STEPS
        return [
            Planned(config, tuple(dict.fromkeys([*correctors, *extra])), _folder(config))
            for config, correctors in groups.items()
        ]

    def names_data_of(self, config: RunConfig) -> bool:
        """Return whether a finished run has the data set of the request, or its selection of classes."""
        selection = selection_of(self.dataset)
        return super().names_data_of(config) or selection == (config.dataset, getattr(config, "subset", ""))

    def is_finished(self, run: RunDirectory, config: IncrementalConfig) -> bool:
        """Return whether all steps have been trained."""
        from energyalign.experiments.incremental.step import is_finished

        return all(is_finished(run, step) for step in range(1, config.n_steps + 1))

    def behind(self, run: RunDirectory, config: IncrementalConfig) -> Sequence[str]:  # noqa: ARG002
        """Return the raw network and the requested correctors, or the standard correctors."""
        usual = ("raw",) if config.memory.selection == "none" else STANDARD_IN_STEPS
        return ["raw", *(self.corrector or usual)]

    def _methods(self) -> list[Method]:
        """Return the requested methods, or one for each corrector of the user's own method."""
        if self.method:
            if self.learner:
                raise EnergyAlignError("a method has its own learner: give --method or --learner, not both.")
            return [find_method(name) for name in (METHODS if "all" in self.method else self.method)]
        learner, ours = find_learner(self.learner or "distill").name, METHODS["ea"]
        rows = [ours, *METHODS.values()]  # take the first with this learner, else ours with its learner replaced
        row = next((row for row in rows if row.learner == learner), ours._replace(learner=learner))._replace(head=None)
        return [row._replace(corrector=corrector) for corrector in self.corrector or [row.corrector]]

    def _memory(self, method: Method, default_total: int) -> MemoryPlan:
        """Return the memory of the method, changed by --memory; ``none`` and ``all`` ignore a number."""
        own = MemoryPlan.parse(method.memory, default_total)
        if self.memory is None:
            return own
        if self.memory.isdecimal():
            return MemoryPlan(own.selection, int(self.memory)) if own.has_number else own
        return MemoryPlan.parse(self.memory, default_total)


def _folder(config: IncrementalConfig) -> str:
    """Return a folder name that is unique among the trainings of a cell."""
    words = [config.learner.name, "" if config.head == "cosine" else config.head]
    words += [str(config.memory).replace(":", "-"), "" if config.fed_back == "raw" else config.fed_back]
    words += ["held-out"] if config.held_out and config.fed_back == "raw" else []
    if config.evidence not in (None, EvidencePlan.default_for(config.dataset)):  # another teacher
        words += [config.evidence.policy, str(config.evidence.per_class)]
    return "-".join(filter(None, words))
