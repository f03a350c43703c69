"""The views of a stored run: one of a long tail, one for each step that was measured otherwise."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from energyalign.core.arrays import Bools
from energyalign.core.metrics import shot_groups
from energyalign.experiments.engine.row import Row
from energyalign.experiments.engine.stored import DEFAULT_EVIDENCE, StoredRun
from energyalign.report.page.encoding import Block
from energyalign.report.page.view import Correction, View
from energyalign.report.trainings import ALIGNED, AS_TRAINED

_BLOCK = 4096


def views_of(run: StoredRun) -> list[View]:
    """In the order of the steps."""
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
        is_pooled=run.in_steps, corrections=_corrections(rows),
    )  # fmt: skip


def _old_and_new(row: Row) -> dict[str, Bools]:
    is_old = np.arange(row.n_old + row.n_new) < row.n_old
    return {"old": is_old, "new": ~is_old}


def _corrections(rows: list[Row]) -> list[Correction]:
    """Of the rows that add a number to every class, the paper's first; what else was measured is in the tables."""
    shifted = [row for row in rows if row.shifts is not None and row.corrector != AS_TRAINED]
    shifted.sort(key=lambda row: (row.corrector != ALIGNED, row.corrector, row.evidence != DEFAULT_EVIDENCE))
    several = len({str(row.evidence) for row in shifted if row.evidence}) > 1
    return [
        Correction(
            _name(row, several),
            np.array(row.shifts),
            np.array(row.standard_errors),
            None if row.effective_samples is None else np.array(row.effective_samples),
        )
        for row in shifted
    ]


def _name(row: Row, several: bool) -> str:
    name = str(row.corrector)
    if several and row.evidence:
        name += f", {row.evidence}"
    return name
