"""The page of stored runs, from folders to one HTML file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from energyalign.core._io.atomic import atomic_write
from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.page.document import Section, document
from energyalign.report.page.encoding import BUDGET
from energyalign.report.page.markup import list_html
from energyalign.report.page.pictures import Pictures, draw_pictures
from energyalign.report.page.run_views import views_of
from energyalign.report.page.story import (
    concerns_section,
    figures_section,
    origin_section,
    results_section,
    unfinished_section,
)
from energyalign.report.page.verdict import verdict_of
from energyalign.report.page.view import View
from energyalign.report.progress import how_far
from energyalign.report.trainings import Training, named_in_full

LIMIT = 14_500_000
"""Bytes of a page; logits get what the rest of it leaves."""
_LEAST = 200_000

Draw = Callable[[Sequence[Training]], Pictures]


def write_page(path: Path, runs: Sequence[StoredRun], *, title: str = "") -> None:
    """Write the page of these runs."""
    text = page_of(runs, title=title, seen_from=path.parent)
    with atomic_write(path) as stream:
        stream.write(text)


def page_of(
    runs: Sequence[StoredRun], *, title: str = "", seen_from: Path = Path(), mark: str = "", draw: Draw | None = None
) -> str:
    """The page of these runs, as HTML.

    Runs that are not finished are listed with how far they are; those without any row are left out of the rest.

    Parameters
    ----------
    runs : sequence of StoredRun
    title : str
    seen_from : Path
        Folders are named as they are seen from this one.
    mark : str
        Of a page that is served, and asks its server for one with another mark.
    draw : callable, optional
        Makes the pictures; `draw_pictures` if not given.
    """
    trainings = named_in_full([run for run in runs if run.rows])
    views, without = _views(trainings)
    sections = [unfinished_section([(run, far) for run in runs if (far := how_far(run))], seen_from)]
    if trainings:
        pictures = (draw or draw_pictures)(trainings)
        sections += [results_section(trainings), figures_section(pictures), concerns_section(trainings)]
        sections += [Section("Left out of the live part", list_html(without)) if without else None]
        sections += [origin_section(trainings, seen_from)]
    shown = [section for section in sections if section is not None]
    cells = ", ".join(dict.fromkeys(str(run.config.name) for run in runs))
    verdict = verdict_of(trainings) if trainings else ["Nothing has been measured yet."]

    def made(budget: int) -> str:
        return document(title or f"energyalign: {cells}", verdict, _live(views, budget), shown, mark=mark)

    page = made(BUDGET)
    excess = len(page.encode()) - LIMIT
    return page if excess <= 0 else made(max(_LEAST, BUDGET - excess * 3 // 4))


def _views(trainings: Sequence[Training]) -> tuple[dict[str, list[View]], list[str]]:
    """Of every run whose logits can be read, by its name; and what is wrong with the others."""
    views, problems = {}, []
    for training in trainings:
        for run in training.runs:
            name = f"{training.cell}, {training.label}, seed {run.config.seed}"
            try:
                views[name] = views_of(run)
            except EnergyAlignError as error:
                problems.append(f"{name}: {error}")
    return views, problems


def _live(views: dict[str, list[View]], budget: int) -> list[dict[str, Any]]:
    """All views share the bytes that there are."""
    n_views = sum(map(len, views.values()))
    return [{"name": name, "views": [view.to_json(budget // n_views) for view in own]} for name, own in views.items()]
