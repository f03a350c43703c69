"""Tables from rows: the paper's tables next to our numbers, and tables of any runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.config import look_up
from energyalign.experiments.engine.row import Row
from energyalign.report.tables.beside import PaperLayout
from energyalign.report.tables.incremental import INCREMENTAL
from energyalign.report.tables.longtail import CIFAR_LT, IMAGENET_LT, INATURALIST
from energyalign.report.tables.model import Cell, Column, Line, PaperTable
from energyalign.report.tables.own import incremental_table, longtail_table, matrix_table, metrics_table, steps_table

__all__ = ["TABLES", "Cell", "Column", "Line", "PaperTable", "TableEntry", "find_table"]


@dataclass(frozen=True)
class TableEntry:
    """An entry of the registry.

    Attributes
    ----------
    name, description : str
    reference : str
        Number of the table in the paper; empty for our own.
    build : callable
        Returns the table of rows.
    cells : tuple of str, default ()
        Cells that rows may be of; empty for any.
    build_per_seed : callable or None, default None
        Like `build`, with a line for each seed; None if the table cannot be shown per seed.
    """

    name: str
    description: str
    reference: str
    build: Callable[[Sequence[Row]], PaperTable]
    cells: tuple[str, ...] = ()
    build_per_seed: Callable[[Sequence[Row]], PaperTable] | None = None

    def make(self, rows: Sequence[Row], *, per_seed: bool = False) -> PaperTable:
        """Return the table of these rows.

        Parameters
        ----------
        rows : sequence of Row
            Rows of one or more runs: ``[row for run in measured_runs([...]) for row in run.rows]``. Rows of cells that
            the table does not have are left out.
        per_seed : bool, default False
            Show a line for each seed instead of means over seeds.
        """
        if self.cells:
            own = [row for row in rows if row.cell in self.cells]
            if rows and not own:
                raise EnergyAlignError(
                    f"the table {self.name} must have runs of {', '.join(self.cells)}, got {rows[0].cell}: "
                    f"use energyalign table {_find_fitting(rows[0])}."
                )
            rows = own
        if not per_seed:
            return self.build(rows)
        if self.build_per_seed is None:
            others = ", ".join(name for name, entry in TABLES.items() if entry.build_per_seed)
            raise EnergyAlignError(f"the table {self.name} cannot be shown per seed: use one of {others}.")
        return self.build_per_seed(rows)


def find_table(name: str) -> TableEntry:
    """Return the entry with this name."""
    return look_up(TABLES, name, "table")


def _of_paper(layout: PaperLayout) -> TableEntry:
    return TableEntry(
        layout.name, layout.title, f"Table {layout.number} of the paper", layout.make, tuple(layout.cells)
    )


def _find_fitting(row: Row) -> str:
    """Return the name of the table that a row belongs in."""
    of_paper = [entry.name for entry in TABLES.values() if row.cell in entry.cells]
    return of_paper[0] if of_paper else "incremental" if row.in_steps else "longtail"


_OWN: dict[str, tuple[str, Callable[..., PaperTable]]] = {
    "longtail": ("any long-tailed runs: balanced accuracy, many, medium, few", longtail_table),
    "incremental": ("any runs in steps: averages, last step, forgetting", incremental_table),
    "steps": ("any runs in steps: accuracy after each step", steps_table),
    "matrix": ("any runs: balanced accuracy of every training with every corrector", matrix_table),
    "metrics": ("any runs: balanced accuracy with its standard error, F1, ECE, NLL, Brier", metrics_table),
}
TABLES: dict[str, TableEntry] = {
    **{layout.name: _of_paper(layout) for layout in (*INCREMENTAL, INATURALIST, IMAGENET_LT, CIFAR_LT)},
    **{
        name: TableEntry(name, description, "", build, build_per_seed=partial(build, per_seed=True))
        for name, (description, build) in _OWN.items()
    },
}
