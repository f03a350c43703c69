"""The corrector contract: a trained network goes in, a corrected network comes out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np

from energyalign.core.errors import EnergyAlignError

if TYPE_CHECKING:
    from energyalign.core.arrays import Ints
    from energyalign.core.shifts import Shifts
    from energyalign.experiments.data.images import ImageSet
    from energyalign.experiments.engine.config import EvidencePlan, RunConfig
    from energyalign.experiments.engine.outputs import Floats32
    from energyalign.experiments.engine.trained import Trained
    from energyalign.experiments.nets.network import Network

Feedback: TypeAlias = Literal["none", "teacher", "student"]


class RunSetting(NamedTuple):
    """What correctors can check before training: the config and all training images of the run, and their own name."""

    config: RunConfig
    train: ImageSet
    corrector: str


class Corrected(NamedTuple):
    """What a corrector returns.

    Attributes
    ----------
    network : Network
        Its largest score is the prediction. If only the head changed, the backbone is the same object as in the
        trained network, so that features are computed once for all correctors.
    shifts : Shifts or None, default None
        The shifts, if the corrector adds one number per class.
    details : mapping
        What the corrector fitted or chose, for the row: numbers, strings, lists.
    concerns : tuple of str
        Reasons not to trust the correction, in addition to the concerns of the shifts.
    gives_logits : bool, default True
        Whether the softmax of the scores gives probabilities.
    """

    network: Network
    shifts: Shifts | None = None
    details: Mapping[str, Any] = {}
    concerns: tuple[str, ...] = ()
    gives_logits: bool = True


@dataclass(frozen=True)
class Corrector(ABC):
    """A way to correct a trained network.

    A corrector sees what the training saw, and evidence drawn from it; a `Trained` gives no access to test data.
    Import torch inside functions, so that tables can be made without it.
    """

    reads_evidence: ClassVar[bool] = False
    """Whether another draw of evidence could change the result."""
    feedback: ClassVar[Feedback] = "none"
    """What it changes in the next step: the ``teacher``, the ``student``, or ``none``."""
    held_out: ClassVar[float] = 0.0
    """Share of the training images, or of the exemplars, that must be held out from training."""
    takes_validation: ClassVar[bool] = False
    """Whether validation images serve as well as held-out ones."""
    first_step: ClassVar[int] = 2
    """The first step that it corrects: by default 2, the first with old classes."""

    def check(self, setting: RunSetting) -> None:  # noqa: B027 - most correctors support every setting
        """Raise an error, before any training, if the corrector does not support this setting."""

    def apply(self, trained: Trained, plan: EvidencePlan) -> Corrected:
        """Correct the network, or return it as trained in steps before `first_step`."""
        if trained.config.in_steps and trained.number < self.first_step:
            return Corrected(trained.network)
        return self.correct(trained, plan)

    @abstractmethod
    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:
        """Return the corrected network; the trained one must not change."""


def concatenate_evidence(trained: Trained, plan: EvidencePlan) -> tuple[Floats32, Ints]:
    """Return the features and labels of balanced evidence from the training images."""
    drawn = trained.evidence_features(plan)
    labels = np.concatenate([np.asarray(of_block) for of_block in drawn.labels])
    return np.concatenate(drawn.blocks), labels


def refuse_steps(setting: RunSetting, name: str, *, instead: str = "leave it out here") -> None:
    """Raise an error if classes come in steps."""
    if setting.config.in_steps:
        raise EnergyAlignError(f"{name} is for long-tailed runs (energyalign longtail): {instead}.")


def refuse_one_step(setting: RunSetting, name: str) -> None:
    """Raise an error if all classes come at once."""
    if not setting.config.in_steps:
        raise EnergyAlignError(
            f"{name} corrects new classes against old ones, and all classes of this run come at once: leave it out, "
            "or use it with "
            "energyalign incremental."
        )


def refuse_no_memory(setting: RunSetting) -> None:
    """Raise an error if classes come in steps and no exemplars are kept, so that old classes have no evidence."""
    memory, learner = getattr(setting.config, "memory", None), setting.config.learner.name
    if memory is not None and memory.selection == "none":
        raise EnergyAlignError(
            f"{setting.corrector} cannot follow {learner}, which keeps no memory here: give --memory random, or leave "
            f"out {learner} or {setting.corrector}."
        )
