"""The page of stored runs, from folders to one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from energyalign.core.atomic import atomic_write
from energyalign.core.errors import EnergyAlignError
from energyalign.report.page.document import Section, document
from energyalign.report.page.encoding import BUDGET
from energyalign.report.page.run_views import views_of
from energyalign.report.page.story import (
    concerns_section,
    figures_section,
    origin_section,
    results_section,
    unfinished_section,
)
from energyalign.report.page.verdict import verdict_of
from energyalign.report.progress import how_far
from energyalign.report.runs import StoredRun
from energyalign.report.trainings import Training, named_in_full


def write_page(path: Path, runs: Sequence[StoredRun], *, title: str = "") -> None:
    """Write the page of these runs."""
    text = page_of(runs, title=title, seen_from=path.parent)
    with atomic_write(path) as stream:
        stream.write(text)


def page_of(runs: Sequence[StoredRun], *, title: str = "", seen_from: Path = Path(), is_served: bool = False) -> str:
    """The page of these runs, as HTML; their folders are named as they are seen from this one.

    Runs that are not finished are listed with how far they are; those without any row are left out of the rest.
    """
    measured = [run for run in runs if run.rows]
    trainings = named_in_full(measured)
    running = unfinished_section([(run, far) for run in runs if (far := how_far(run))], seen_from)
    sections: list[Section | None] = [running]
    if measured:
        sections += [results_section(trainings), figures_section(drawn_figures(trainings))]
        sections += [concerns_section(trainings), origin_section(trainings, seen_from)]
    cells = ", ".join(dict.fromkeys(str(run.config["name"]) for run in runs))
    verdict = verdict_of(trainings) if measured else ["Nothing has been measured yet."]
    return document(
        title or f"energyalign: {cells}", verdict, _live(trainings), [part for part in sections if part is not None],
        is_served=is_served,
    )  # fmt: skip


def drawn_figures(trainings: Sequence[Training]) -> list[tuple[str, str]] | None:
    """SVG and caption of every figure that the runs of a cell allow; None without matplotlib."""
    try:
        from energyalign.report.drawing import page_svg
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("matplotlib"):
            raise
        return None
    from energyalign.report.figures import FIGURES

    drawn = []
    for cell in dict.fromkeys(training.cell for training in trainings):
        runs = [run for training in trainings if training.cell == cell for run in training.runs]
        for entry in FIGURES.values():
            try:
                figure = entry.draw(runs)
            except EnergyAlignError:
                continue  # these runs have not what it shows
            drawn.append((page_svg(figure), f"{cell}: {entry.description}."))
    return drawn


def _live(trainings: Sequence[Training]) -> list[dict[str, Any]]:
    """Every run with its views; all share the bytes that there are."""
    views = [
        (f"{training.cell}, {training.label}, seed {run.config['seed']}", views_of(run))
        for training in trainings
        for run in training.runs
    ]
    n_views = sum(len(of_run) for _, of_run in views)
    return [{"name": name, "views": [view.to_json(BUDGET // n_views) for view in of_run]} for name, of_run in views]
