"""Class-incremental runs: what fixes a training, and what a user asks for."""

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
    """One training over all steps: its memory, and what is fed back.

    Attributes
    ----------
    fed_back : str
        The corrector whose result the next step starts from, as its teacher or as its student; ``raw`` for none.
    held_out : float
        Which part of the exemplars, and as many images of each new class, are not trained on, because the corrector
        that is fed back, or one that measures this run, needs them.
    subset, order : str
        Which classes come, and in which order.
    recipe : Recipe
        Of each step.
    lambda_base : float
        Weight of distillation at the limit of many old classes.
    weight_decay_factor : float
        Eta: step b has the weight decay of the recipe times ``eta ** (b - 1)``.
    evidence : EvidencePlan or None
        Of the corrector that is fed back, if it reads evidence.
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
            raise EnergyAlignError(f"the weight of distillation must be within 0 and 1, got {self.lambda_base:g}.")

    @property
    def default_evidence(self) -> EvidencePlan:
        """That of the corrector that is fed back, if it reads evidence."""
        return self.evidence or super().default_evidence

    @classmethod
    def from_preset(
        cls, preset: IncrementalPreset, learner: FineTuning, *, seed: int, memory: MemoryPlan, corrector: str = "raw",
        fed_back: str | None = None, evidence: EvidencePlan | None = None, **options: Any,
    ) -> IncrementalConfig:  # fmt: skip
        """The cell with this seed, as learner and corrector change it; `options` are further fields, such as `scale`.

        A corrector that does not act on the next step, or cannot because the learner has no teacher, leaves the
        training as it would be without: such rows share one run. `fed_back` names another one to act on it.
        """
        acting = find_corrector(corrector)
        if fed_back is None:
            feeds_back = acting.feedback == "student" or (acting.feedback == "teacher" and learner.has_teacher)
            fed_back = corrector if feeds_back else "raw"
        teaching = find_corrector(fed_back)
        if fed_back != "raw" and teaching.feedback != "student" and not learner.has_teacher:
            raise EnergyAlignError(
                f"{fed_back} cannot be fed back: the learner {learner.name} has no teacher that could carry it. Leave "
                "out --fed-back, or choose a learner with a teacher, such as distill."
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
        """What `to_json` wrote."""
        return cls.restore(value, LEARNERS, MemoryPlan)

    def recipe_of(self, step: int) -> Recipe:
        """With the weight decay of step 1, 2, ..."""
        optimizer: Any = self.recipe.optimizer
        factor = 1.0 if self.learner.constant_weight_decay else self.weight_decay_factor
        decay = optimizer.weight_decay * factor ** (step - 1)
        return replace(self.recipe, optimizer=replace(optimizer, weight_decay=decay))


def config_of(
    method: Method, preset: IncrementalPreset, *, seed: int, memory: MemoryPlan | None = None, **others: Any
) -> IncrementalConfig:  # fmt: skip
    """The training of a row in a cell, with its memory unless another is given; see `IncrementalConfig.from_preset`."""
    return IncrementalConfig.from_preset(
        preset.with_head(method.head), find_learner(method.learner), seed=seed,
        memory=memory or MemoryPlan.parse(method.memory, preset.memory_for(0, 1)),
        corrector=method.corrector, **others,
    )  # fmt: skip


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
        """The cell, changed as the options say."""
        preset = self.change(preset_for(self.dataset, self.steps))
        if self.subset not in (None, preset.subset):  # other classes are another cell, and none of the paper's
            preset = replace(preset, name=f"{preset.name}-{self.subset.replace(':', '-')}", subset=self.subset)
        return replace(preset, order=preset.order if self.order is None else read_order(self.order))

    def load_for(self, config: IncrementalConfig) -> ClassStream:
        """Read the source and arrange its classes."""
        from energyalign.experiments.incremental.stream import load_stream

        return load_stream(config, self.data_root, self.own_source)

    def experiment(self, config: IncrementalConfig, data: ClassStream, **others: Any) -> IncrementalExperiment:
        """The experiment of one config."""
        from energyalign.experiments.incremental.experiment import IncrementalExperiment

        return IncrementalExperiment(config, stream=data, **others)

    def plan(self, data: ClassStream | None = None) -> list[Planned]:
        """A training for each learner, head, memory and what is fed back."""
        n_train, n_classes = (0, 1) if data is None else (len(data.train), data.train.n_classes)
        preset = self.for_images(self.preset, None if data is None else data.train)
        default_memory = preset.memory_for(n_train, n_classes)
        groups: dict[IncrementalConfig, list[str]] = {}
        for method in self._methods():
            config = config_of(
                method._replace(head=self.head or method.head), preset, seed=self.seed[0],
                memory=self._memory(method, default_memory), fed_back=self.fed_back, evidence=self.evidence_plans[0],
                **self.given(*self.config_options),
            )  # fmt: skip
            # The raw network is the control of every other row, and costs nothing.
            groups.setdefault(config, ["raw"]).append(method.corrector)
        # Behind every run: correctors asked for beside methods, or the standard ones if nothing was asked.
        composed = bool(self.corrector or self.learner)
        extra = self.corrector if self.method else () if composed else STANDARD_IN_STEPS
        return [
            Planned(config, tuple(dict.fromkeys([*correctors, *extra])), _folder(config))
            for config, correctors in groups.items()
        ]

    def names_data_of(self, config: RunConfig) -> bool:
        """Whether the data set of the request, or the selection of it, is that of a finished run."""
        selection = selection_of(self.dataset)
        return super().names_data_of(config) or selection == (config.dataset, getattr(config, "subset", ""))

    def is_finished(self, run: RunDirectory, config: IncrementalConfig) -> bool:
        """Whether all steps have been trained."""
        from energyalign.experiments.incremental.step import is_finished

        return all(is_finished(run, step) for step in range(1, config.n_steps + 1))

    def behind(self, run: RunDirectory, config: IncrementalConfig) -> Sequence[str]:  # noqa: ARG002
        """Those asked for, or the standard ones, beside the raw network."""
        usual = ("raw",) if config.memory.selection == "none" else STANDARD_IN_STEPS
        return ["raw", *(self.corrector or usual)]

    def _methods(self) -> list[Method]:
        """The rows: those with a name, or one for each corrector of the composition."""
        if self.method:
            if self.learner:
                raise EnergyAlignError("a method has a learner of its own: give --method or --learner, not both.")
            return [find_method(name) for name in (METHODS if "all" in self.method else self.method)]
        learner, ours = find_learner(self.learner or "distill").name, METHODS["ea"]
        rows = [ours, *METHODS.values()]  # the first of the learner; one that is in no table is corrected as ours
        row = next((row for row in rows if row.learner == learner), ours._replace(learner=learner))._replace(head=None)
        return [row._replace(corrector=corrector) for corrector in self.corrector or [row.corrector]]

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
    if config.evidence not in (None, EvidencePlan.default_for(config.dataset)):  # another teacher
        words += [config.evidence.policy, str(config.evidence.per_class)]
    return "-".join(filter(None, words))
