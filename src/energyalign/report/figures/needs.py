"""What a figure needs that these runs do not have."""

from __future__ import annotations

from collections.abc import Sequence

from energyalign.core.errors import EnergyAlignError
from energyalign.report.trainings import ALIGNED, AS_TRAINED, Training


def lacking(figure: str, needs: str, command: str) -> EnergyAlignError:
    """The error to raise: what is needed, and the command that makes it."""
    return EnergyAlignError(f"the figure {figure} needs {needs}: {command}")


def with_and_without(figure: str, trainings: Sequence[Training]) -> tuple[list[Training], str]:
    """The trainings that have rows of both correctors, and a note on those that have not."""
    both = [training for training in trainings if all(map(training.measured, (AS_TRAINED, ALIGNED)))]
    if not both:
        command = "incremental" if trainings[0].in_steps else "longtail"
        raise lacking(
            figure, f"rows of {AS_TRAINED} and {ALIGNED} of one training",
            f"energyalign {command} DATASET --corrector {AS_TRAINED} {ALIGNED}",
        )  # fmt: skip
    others = [training.label for training in trainings if training not in both]
    note = f"Not shown, for want of rows of {AS_TRAINED} and {ALIGNED}: {'; '.join(others)}." if others else ""
    return both, note
