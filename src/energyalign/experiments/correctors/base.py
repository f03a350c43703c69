"""What a corrector is: a trained network goes in, a corrected network comes out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

from energyalign.core.errors import EnergyAlignError

if TYPE_CHECKING:
    from energyalign.core.shifts import Shifts
    from energyalign.experiments.data.images import ImageSet
    from energyalign.experiments.engine.config import RunConfig
    from energyalign.experiments.engine.plan import EvidencePlan
    from energyalign.experiments.engine.trained import Trained
    from energyalign.experiments.nets.network import Network

Feedback: TypeAlias = Literal["none", "teacher", "student"]


class Cell(Protocol):
    """What is known before anything is trained."""

    @property
    def config(self) -> RunConfig:
        """What will be trained."""

    @property
    def train(self) -> ImageSet:
        """All training images of the run."""


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
    """

    network: Network
    shifts: Shifts | None = None
    details: Mapping[str, Any] = {}
    concerns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Corrector(ABC):
    """One way of correcting a trained network; subclasses override what they do otherwise.

    A corrector sees what the training saw, and evidence drawn from that: there is no way from a `Trained` to test data.
    It imports torch where it uses it, so that tables can be made without.
    """

    @property
    def reads_evidence(self) -> bool:
        """Whether another draw of evidence could change the result."""
        return False

    @property
    def feedback(self) -> Feedback:
        """What of the next step it changes: its ``teacher``, the ``student`` that goes on, or ``none``."""
        return "none"

    @property
    def held_out(self) -> float:
        """Which part of the exemplars it needs to be held out from training."""
        return 0.0

    @property
    def first_step(self) -> int:
        """From which step on it has something to correct: 2, for there are no old classes before."""
        return 2

    def check(self, cell: Cell) -> None:  # noqa: B027 - most have nothing to refuse
        """Refuse, before any training, what it could not correct."""

    @abstractmethod
    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:
        """The network to predict with; the trained one stays as it is."""


def refuse_steps(cell: Cell, name: str) -> None:
    """Refuse runs whose classes come in steps."""
    if cell.config.in_steps:
        raise EnergyAlignError(f"{name} is for long-tailed runs (energyalign longtail): leave it out here.")


def refuse_one_step(cell: Cell, name: str) -> None:
    """Refuse runs whose classes come all at once."""
    if not cell.config.in_steps:
        raise EnergyAlignError(
            f"{name} sets new classes against old ones, and here all come at once: leave it out, or use it with "
            "energyalign incremental."
        )


def refuse_no_memory(cell: Cell, why: str) -> None:
    """Refuse runs in steps that keep no exemplars, and say what they are needed for."""
    memory = getattr(cell.config, "memory", None)
    if memory is not None and memory.selection == "none":
        raise EnergyAlignError(
            f"{why}, and the memory none keeps nothing of old classes: give a memory, for example --memory random, or "
            "leave it out."
        )
