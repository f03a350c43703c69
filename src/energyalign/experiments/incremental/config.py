"""What fixes an incremental run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.correctors import find_corrector
from energyalign.experiments.engine.config import RunConfig
from energyalign.experiments.engine.plan import EvidencePlan
from energyalign.experiments.incremental.learners import LEARNERS, FineTuning
from energyalign.experiments.incremental.memory_plan import MemoryPlan
from energyalign.experiments.incremental.presets import IncrementalPreset
from energyalign.experiments.nets.registry import DEFAULT_SCALE
from energyalign.experiments.train.recipe import Recipe


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
        return self.evidence or EvidencePlan()

    @classmethod
    def from_preset(
        cls, preset: IncrementalPreset, learner: FineTuning, *, seed: int, memory: MemoryPlan, corrector: str = "raw",
        fed_back: str | None = None, evidence: EvidencePlan | None = None, scale: float = DEFAULT_SCALE,
        learned_scale: bool = False, precision: str = "32-true", compile: bool = False,
    ) -> IncrementalConfig:  # fmt: skip
        """The cell with this seed, as learner and corrector change it.

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
        return cls(
            name=preset.name, learner=learner, memory=memory, fed_back=fed_back,
            held_out=max(acting.held_out, teaching.held_out), dataset=preset.dataset, subset=preset.subset,
            order=preset.order, n_steps=preset.n_steps, backbone=learner.backbone(preset.backbone),
            head=learner.head or preset.head, scale=scale, learned_scale=learned_scale,
            recipe=learner.recipe(preset), lambda_base=preset.lambda_base,
            weight_decay_factor=preset.weight_decay_factor,
            evidence=(evidence or EvidencePlan()) if teaching.reads_evidence else None, seed=seed, precision=precision,
            compile=compile,
        )  # fmt: skip

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> IncrementalConfig:
        """What `to_json` wrote."""
        return cls.restore(value, [MemoryPlan, *{type(learner) for learner in LEARNERS.values()}])

    def recipe_of(self, step: int) -> Recipe:
        """With the weight decay of step 1, 2, ..."""
        optimizer: Any = self.recipe.optimizer
        factor = 1.0 if self.learner.constant_weight_decay else self.weight_decay_factor
        decay = optimizer.weight_decay * factor ** (step - 1)
        return replace(self.recipe, optimizer=replace(optimizer, weight_decay=decay))
