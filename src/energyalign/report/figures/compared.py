"""Raw and aligned accuracy of trainings that differ only in the head or in the optimizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.figure import Figure

from energyalign.experiments.engine.row import HEADLINE
from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.figures.common import (
    about,
    command_for,
    missing_error,
    note_left_out,
    trainings_of,
    with_and_without,
)
from energyalign.report.figures.groups import draw_group_bars
from energyalign.report.figures.steps import draw_curves, looks_of
from energyalign.report.panels import end_at_100, panels, title_panel
from energyalign.report.tables.incremental import curves_of
from energyalign.report.trainings import Training, optimizer_name, setting


def draw_heads(runs: Sequence[StoredRun]) -> Figure:
    """Draw a panel for each head: bars for a long tail, curves over steps for incremental runs."""
    return _draw_compared("heads", runs, "head", lambda run: f"{run.config.head} head", ("cosine", "linear"))


def draw_optimizers(runs: Sequence[StoredRun]) -> Figure:
    """Draw a panel for each optimizer, as `draw_heads` does."""
    return _draw_compared("optimizers", runs, "optimizer", optimizer_name, ("sgd", "adam"))


def _draw_compared(
    figure_name: str, runs: Sequence[StoredRun], varied: str, value: Callable[[StoredRun], str],
    examples: tuple[str, str],
) -> Figure:  # fmt: skip
    """Draw a row of panels for trainings that differ only in one setting.

    Parameters
    ----------
    figure_name : str
    runs : sequence of StoredRun
    varied : str
        Name of the setting: an option, and a key of the config or of its recipe.
    value : callable
        Returns the title of a run's panel.
    examples : two str
        Values of the option, for the error message.
    """
    trainings, note = with_and_without(figure_name, trainings_of(figure_name, runs))
    in_steps = trainings[0].in_steps
    families: dict[str, list[Training]] = {}
    for training in trainings:
        families.setdefault(setting(training.runs[0], varied), []).append(training)
    several = [family for family in families.values() if len(family) > 1]
    if not several:
        raise missing_error(
            figure_name, f"trainings with rows of raw and ea that differ only in the {varied}",
            f"{command_for(trainings)} --{varied} {examples[0]}, and again with --{varied} {examples[1]}",
        )  # fmt: skip
    compared = [training for family in several for training in family]
    others = note_left_out(trainings, compared, f"no other training differs only in the {varied}")
    curves = [curves_of([row for run in training.runs for row in run.rows]) for training in compared if in_steps]
    looks = looks_of(list(dict.fromkeys(name for of_training in curves for name in of_training)))
    with panels(
        len(compared), what=f"Balanced accuracy, raw and aligned, by {varied}", about=about(compared),
        columns=min(3, max(map(len, several))), width=3.4 if in_steps else 3.2, height=2.6 if in_steps else 2.4,
        ylabel="balanced accuracy, %", note=f"{others} {note}".strip(), sharey=True,
    ) as (figure, axes):  # fmt: skip
        for index, (panel, training) in enumerate(zip(axes, compared, strict=True)):
            if in_steps:
                draw_curves(panel, curves[index], HEADLINE, looks)
            else:
                draw_group_bars(panel, training)
            # With several families, the setting alone is ambiguous.
            title_panel(panel, value(training.runs[0]) if len(several) == 1 else training.label)
        end_at_100(axes if in_steps else [])
    return figure
