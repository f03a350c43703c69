"""What figures share: their trainings, what they say of them, and the axis of classes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from energyalign.core.errors import EnergyAlignError, count_of
from energyalign.experiments.correctors import CORRECTORS
from energyalign.experiments.engine.row import natural
from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.panels import text_scale
from energyalign.report.trainings import (
    ALIGNED,
    AS_TRAINED,
    Training,
    by_setting,
    labels_of,
    seeds_and_settings,
    short,
    shown,
)

_MAX_NAMES = 20
_MAX_LARGE = 12
_UPRIGHT = 2
"""Letters of a name that find room below a bar."""
_LETTER = 0.075
_MAX_BARS = 40
"""On an axis: gaps and outlines of more would cover the bars themselves."""


def trainings_of(figure: str, runs: Sequence[StoredRun]) -> list[Training]:
    """The runs by training, in the order in which they came; a seed that is given twice counts once."""
    if len({run.in_steps for run in runs}) != 1:
        raise EnergyAlignError(
            f"the figure {figure} is of long-tailed or of incremental runs, not of both: give the folders of one kind."
        )
    groups = by_setting(runs)
    return [Training(*named) for named in zip(labels_of([seeds[0] for seeds in groups]), groups, strict=True)]


def check_one_cell(figure: str, trainings: Sequence[Training]) -> None:
    """Refuse trainings on several data sets where they would share an axis."""
    cells = sorted({shown(training.cell) for training in trainings})
    if len(cells) > 1:
        raise EnergyAlignError(
            f"the figure {figure} is of one cell, and was given runs of {', '.join(cells)}: give the runs of one."
        )


def about(trainings: Sequence[Training]) -> str:
    """What they have in common, and how many: ``digits-lt-50, ce, cosine head, small-cnn, 3 seeds``."""
    runs = [run for training in trainings for run in training.runs]
    steps = {f"after step {training.step} of {training.runs[0].n_steps}" for training in trainings if training.step}
    when = steps.pop() if len(steps) == 1 else ""
    return seeds_and_settings(runs, [len(training.runs) for training in trainings], when, _chosen_evidence(trainings))


def panel_title(training: Training, trainings: Sequence[Training]) -> str:
    """Its label; nothing if there is no other. With the step where that is not the same for all."""
    label = training.label if len(trainings) > 1 else ""
    several = len({(each.step, each.runs[0].n_steps) for each in trainings}) > 1
    return f"{label}, after step {training.step}" if several else label


def seeds_behind(training: Training, corrector: str) -> str:
    """``1 of 3 seeds`` if a corrector was not measured with all of them; empty otherwise."""
    measured, trained = len(training.measured(corrector)), len(training.runs)
    return f"{measured} of {count_of(trained, 'seed')}" if measured < trained else ""


def _chosen_evidence(trainings: Iterable[Training]) -> str:
    """Which evidence was taken, if there are rows of several kinds."""
    for training in trainings:
        plans = {row.evidence for run in training.runs for row in run.rows if row.corrector == ALIGNED}
        if len(plans) > 1:
            return f"evidence {training.rows_of(ALIGNED)[0].evidence}"
    return ""


def lacking(figure: str, needs: str, command: str) -> EnergyAlignError:
    """The error to raise: what is needed, and the command that makes it."""
    return EnergyAlignError(f"the figure {figure} needs {needs}: {command}")


def with_and_without(figure: str, trainings: Sequence[Training]) -> tuple[list[Training], str]:
    """The trainings that have rows of both correctors, with the seeds that have both; and a note on the others."""
    both = [shared for training in trainings if (shared := training.shared_by(AS_TRAINED, ALIGNED)).runs]
    rows = f"rows of {AS_TRAINED} and {ALIGNED}"
    if not both:
        command = f"{command_for(trainings)} --corrector {AS_TRAINED} {ALIGNED}"
        raise lacking(figure, f"{rows} of one training", command)
    return both, not_shown(trainings, both, f"for want of {rows}")


def command_for(trainings: Sequence[Training]) -> str:
    """What makes more of them."""
    return f"energyalign {'incremental' if trainings[0].in_steps else 'longtail'} DATASET"


def not_shown(trainings: Sequence[Training], shown: Collection[Training], why: str) -> str:
    """A note on the trainings, and seeds of them, that a figure leaves out; empty if there are none."""
    runs = [run for training in shown for run in training.runs]
    others = []
    for training in trainings:
        missing = [run for run in training.runs if run not in runs]
        if len(missing) == len(training.runs):
            others.append(training.label)
        elif missing:
            others.append(f"{training.label}, seed {', '.join(str(run.config.seed) for run in missing)}")
    return f"Not shown, {why}: {'; '.join(others)}." if others else ""


def class_order(training: Training) -> NDArray[np.int64]:
    """Most training images first; classes that came in steps in their order of arrival."""
    counts = training.counts
    return np.arange(len(counts)) if training.in_steps else np.argsort(-counts, kind="stable")


def told_order(training: Training) -> str:
    """For the label of the axis."""
    return "in order of arrival" if training.in_steps else "most images first"


def room_for_names(trainings: Sequence[Training]) -> float:
    """What the names of classes need beside or below a panel, in inches, over what numbers need."""
    named = [name for each in trainings if len(each.counts) <= _MAX_NAMES for name in each.class_names]
    longest = max((len(short(name)) for name in named), default=0)
    return _LETTER * longest * text_scale() if longest > _UPRIGHT else 0.0


def name_classes(axis: Any, training: Training) -> None:
    """The names of the classes along an x or y axis, if they are few enough to be read."""
    names = [short(training.class_names[k]) for k in class_order(training)]
    if len(names) > _MAX_NAMES:
        axis.set_major_locator(MaxNLocator(5, integer=True))
        return
    axis.set_ticks(range(len(names)), names)
    if len(names) > _MAX_LARGE:
        axis.set_tick_params(labelsize="small")
    # Long names would run into each other below the columns.
    if axis.axis_name == "x" and max(map(len, names)) > _UPRIGHT:
        axis.set_tick_params(labelrotation=90)


def in_order(names: Collection[str]) -> list[str]:
    """Correctors as in the registry; then others, ``ea-M2`` before ``ea-M16``."""
    known = list(CORRECTORS)
    return sorted(names, key=lambda name: (known.index(name) if name in known else len(known), natural(name)))


def draw_bars(
    axes: Axes, heights: NDArray[np.float64], *, first: int = 0, n_classes: int | None = None, **look: Any
) -> None:
    """A bar for each class from the first on; one shape if the axis has too many classes for gaps between them."""
    if (n_classes or len(heights)) > _MAX_BARS:
        axes.stairs(heights, first - 0.5 + np.arange(len(heights) + 1), fill=True, **look)
    else:
        axes.bar(first + np.arange(len(heights)), heights, **look)
