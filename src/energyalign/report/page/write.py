"""The page of stored runs: one HTML file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from energyalign.core._io.atomic import atomic_write
from energyalign.core.arrays import Bools
from energyalign.core.clusters import Clusters
from energyalign.core.errors import EnergyAlignError
from energyalign.core.metrics import shot_groups
from energyalign.core.shifts import Shifts
from energyalign.experiments.engine.row import Row
from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.page.document import Section, document, list_html
from energyalign.report.page.story import (
    Pictures,
    compare_with_raw,
    compared_section,
    concerns_section,
    draw_pictures,
    figures_section,
    origin_section,
    results_section,
    unfinished_section,
)
from energyalign.report.page.verdict import results_of
from energyalign.report.page.view import BUDGET, Block, Correction, View
from energyalign.report.tables.order import line_key
from energyalign.report.trainings import ALIGNED, AS_TRAINED, Training, name_in_full, progress_of

LIMIT = 14_500_000
"""Maximum bytes of a page; logits get the bytes that the rest of the page leaves."""
_MIN_BUDGET = 200_000
_BLOCK = 4096
Draw = Callable[[Sequence[Training]], Pictures]


def write_page(path: Path, runs: Sequence[StoredRun], *, title: str = "", first: Section | None = None) -> None:
    """Write the page of these runs."""
    text = page_of(runs, title=title, seen_from=path.parent, first=first)
    with atomic_write(path) as stream:
        stream.write(text)


def page_of(
    runs: Sequence[StoredRun], *, title: str = "", seen_from: Path = Path(), mark: str = "", draw: Draw | None = None,
    first: Section | None = None,
) -> str:  # fmt: skip
    """Return the page of these runs as HTML.

    Unfinished runs are listed with their progress. Runs without rows appear nowhere else.

    Parameters
    ----------
    runs : sequence of StoredRun
    title : str, default ""
        Empty for the names of the cells.
    seen_from : Path, default Path()
        Folders are shown relative to this one.
    mark : str, default ""
        State of a served page; the page reloads itself when the server reports another state.
    draw : callable, default None
        Draws the figures; None for `draw_pictures`.
    first : Section, default None
        Section before the sections of the runs.
    """
    trainings = name_in_full([run for run in runs if run.rows])
    views, without = _views(trainings)
    sections = [first, unfinished_section([(run, text) for run in runs if (text := progress_of(run))], seen_from)]
    results = [("Nothing has been measured yet.", "")]
    if trainings:
        comparisons = compare_with_raw(trainings)
        results = results_of(trainings, comparisons)
        sections += [
            results_section(trainings),
            compared_section(comparisons),
            figures_section((draw or draw_pictures)(trainings)),
            concerns_section(trainings),
            Section("Left out of the live part", list_html(without)) if without else None,
            origin_section(trainings, seen_from),
        ]
    shown = [section for section in sections if section is not None]
    cells = ", ".join(dict.fromkeys(str(run.config.name) for run in runs))

    def render(budget: int) -> str:
        return document(title or f"energyalign: {cells}", results, _live(views, budget), shown, mark=mark)

    page = render(BUDGET)
    excess = len(page.encode()) - LIMIT
    return page if excess <= 0 else render(max(_MIN_BUDGET, BUDGET - excess * 3 // 4))


def _views(trainings: Sequence[Training]) -> tuple[dict[str, list[View]], list[str]]:
    """Return the views of every run whose logits can be read, by its name, and the errors of the other runs."""
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
    """Return the data of the live part; the views share the budget equally."""
    n_views = sum(map(len, views.values()))
    return [{"name": name, "views": [view.to_json(budget // n_views) for view in own]} for name, own in views.items()]


def views_of(run: StoredRun) -> list[View]:
    """Return a view for each step that was measured."""
    if not run.in_steps:
        return [_view(run, None)]
    return [_view(run, step) for step in sorted({row.step for row in run.rows})]


def _view(run: StoredRun, step: int | None) -> View:
    outputs, rows = run.outputs(step), run.rows_at(step)
    counts = run.counts(step)
    n_classes = outputs.logits.shape[1]

    def blocks() -> Iterator[Block]:
        for start in range(0, len(outputs.logits), _BLOCK):
            yield outputs.logits[start : start + _BLOCK]

    return View(
        name="" if step is None else f"after step {step}", blocks=blocks, labels=outputs.labels,
        class_names=run.class_names[:n_classes], counts=counts.astype(np.float64),
        groups=shot_groups(counts, n_classes) if step is None else _old_and_new(rows[0]),
        in_steps=run.in_steps, corrections=_corrections(rows, run.class_names[:n_classes]),
    )  # fmt: skip


def _old_and_new(row: Row) -> dict[str, Bools]:
    is_old = np.arange(row.n_old + row.n_new) < row.n_old
    return {"old": is_old, "new": ~is_old}


def _corrections(rows: list[Row], class_names: Sequence[str]) -> list[Correction]:
    """Return the corrections of all rows that have shifts, the paper's first."""
    shifted = [row for row in rows if row.shifts is not None and row.corrector != AS_TRAINED]
    shifted.sort(key=lambda row: (row.corrector != ALIGNED, line_key(row)))
    several = len({str(row.evidence) for row in shifted if row.evidence}) > 1
    return [
        Correction(
            f"{row.corrector}, {row.evidence}" if several and row.evidence else row.corrector, _shifts(row, class_names)
        )
        for row in shifted
    ]


def _shifts(row: Row, class_names: Sequence[str]) -> Shifts:
    """Return the shifts of a row; a row does not store its clusters, so equal shifts count as shared."""
    arrays = (row.shifts, row.standard_errors, row.energies_before, row.effective_samples)
    values, errors, energies, effective = (None if one is None else np.array(one, dtype=np.float64) for one in arrays)
    assert values is not None
    assert errors is not None
    levels, assignment = np.unique(values, return_inverse=True)
    return Shifts(
        values, errors, Clusters(tuple(assignment.tolist()), int(np.argmin(np.abs(levels))), str(row.clusters)),
        np.full(len(values), 1 / len(values)), str(row.estimator), energies=energies, effective_samples=effective,
        counts=np.array(row.counts, dtype=np.float64), class_names=tuple(class_names), concerns=row.concerns,
        n_samples=0.0 if row.evidence is None else float(row.evidence.per_class * len(values)),
    )  # fmt: skip
