"""What a corrector is: a trained network goes in, a corrected network comes out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias

from energyalign.core.errors import EnergyAlignError

if TYPE_CHECKING:
    from energyalign.core.shifts import Shifts
    from energyalign.experiments.data.images import ImageSet
    from energyalign.experiments.engine.config import EvidencePlan, RunConfig
    from energyalign.experiments.engine.trained import Trained
    from energyalign.experiments.nets.network import Network

Feedback: TypeAlias = Literal["none", "teacher", "student"]


class RunSetting(NamedTuple):
    """What is known before anything is trained: the config, and all training images of the run."""

    config: RunConfig
    train: ImageSet


class Corrected(NamedTuple):
    """What a corrector returns.

    Attributes
    ----------
    network : Network
        Gives scores, of which the largest is the prediction. Its backbone is that of the trained network itself where
        only the head changed: features are then computed once for all correctors.
    shifts : Shifts or None
        If all it did was to add a number per class.
    details : mapping
        What it chose on the way, for the row: numbers, strings, lists.
    concerns : tuple of str
        Reasons not to trust it, besides those that the shifts have.
    gives_logits : bool
        Whether the softmax of the scores are probabilities.
    """

    network: Network
    shifts: Shifts | None = None
    details: Mapping[str, Any] = {}
    concerns: tuple[str, ...] = ()
    gives_logits: bool = True


@dataclass(frozen=True)
class Corrector(ABC):
    """One way of correcting a trained network; subclasses override what they do otherwise.

    A corrector sees what the training saw, and evidence drawn from that: there is no way from a `Trained` to test data.
    It imports torch where it uses it, so that tables can be made without.
    """

    reads_evidence: ClassVar[bool] = False
    """Whether another draw of evidence could change the result."""
    feedback: ClassVar[Feedback] = "none"
    """What of the next step it changes: its ``teacher``, the ``student`` that goes on, or ``none``."""
    held_out: ClassVar[float] = 0.0
    """Which part of the exemplars it needs to be held out from training."""
    first_step: ClassVar[int] = 2
    """From which step on it has something to correct: 2, for there are no old classes before."""

    def check(self, setting: RunSetting) -> None:  # noqa: B027 - most have nothing to refuse
        """Refuse, before any training, what it could not correct."""

    def apply(self, trained: Trained, plan: EvidencePlan) -> Corrected:
        """Correct the network; in steps before the first one that has something to correct it stays as trained."""
        if trained.config.in_steps and trained.number < self.first_step:
            return Corrected(trained.network)
        return self.correct(trained, plan)

    @abstractmethod
    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:
        """The network to predict with; the trained one stays as it is."""


def refuse_steps(setting: RunSetting, name: str, *, instead: str = "leave it out here") -> None:
    """Refuse runs whose classes come in steps."""
    if setting.config.in_steps:
        raise EnergyAlignError(f"{name} is for long-tailed runs (energyalign longtail): {instead}.")


def refuse_one_step(setting: RunSetting, name: str) -> None:
    """Refuse runs whose classes come all at once."""
    if not setting.config.in_steps:
        raise EnergyAlignError(
            f"{name} sets new classes against old ones, and here all come at once: leave it out, or use it with "
            "energyalign incremental."
        )


def refuse_no_memory(setting: RunSetting, why: str) -> None:
    """Refuse runs in steps that keep no exemplars, and say what they are needed for."""
    memory = getattr(setting.config, "memory", None)
    if memory is not None and memory.selection == "none":
        raise EnergyAlignError(
            f"{why}, and the memory none keeps nothing of old classes: give a memory, for example --memory random, or "
            "leave it out."
        )
