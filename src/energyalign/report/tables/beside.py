"""Tables of the paper with our numbers: up to three lines for each method, and notes on settings that differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from energyalign.experiments.engine.row import Row, natural
from energyalign.experiments.engine.stored import default_plan, of_one_plan
from energyalign.experiments.train.recipe import describe
from energyalign.report.tables.best import with_best
from energyalign.report.tables.model import DIFFERENCE, MARK, OURS, PAPER, Cell, Column, Line, PaperTable
from energyalign.report.tables.order import line_key
from energyalign.report.tables.settings import Difference, check_one_setting, differences_from_paper

_QUOTED = (
    "The paper's numbers are as printed. The paper quotes its methods other than ea from papers with other networks "
    "and "
    "subsets. A difference is ours minus the paper's."
)


class Slot(NamedTuple):
    """A column and its number: a measure of a cell, after a step, or averaged over the steps of an incremental cell."""

    column: Column
    cell: str
    measure: str
    step: int | None = None


class Application(NamedTuple):
    """How to read rows of long-tailed or of incremental runs.

    Attributes
    ----------
    any_runs : str
        Name of the table for any runs of this kind.
    method_of : callable
        Returns the method of a row.
    setting_in_paper : callable
        Returns the config of a row's training in the paper's cell; None for a learner that the paper does not have.
    ours : callable
        Returns the number of each seed, between 0 and 1, from rows of one method, cell and setting.
    paper : callable
        Returns the printed number of a method.
    """

    any_runs: str
    method_of: Callable[[Row], str]
    setting_in_paper: Callable[[Row], dict[str, Any] | None]
    ours: Callable[[Sequence[Row], Slot], dict[int, float | None]]
    paper: Callable[[str, Slot], Cell]


@dataclass(frozen=True)
class PaperLayout:
    """A table of the paper.

    Attributes
    ----------
    name, title : str
    number : int
        Number in the paper.
    slots : tuple of Slot
    methods : tuple of str
        In the paper's order; other methods come after them, in the order of other tables.
    application : Application
    stacked : bool, default False
        See `PaperTable`.
    """

    name: str
    title: str
    number: int
    slots: tuple[Slot, ...]
    methods: tuple[str, ...]
    application: Application
    stacked: bool = False

    @property
    def cells(self) -> list[str]:
        """Cells that rows may be of."""
        return list(dict.fromkeys(slot.cell for slot in self.slots))

    def make(self, rows: Sequence[Row]) -> PaperTable:
        """Return the table with the numbers of these rows; without rows, with the paper's numbers only."""
        by_method: dict[str, dict[str, _Measured]] = {method: {} for method in self.methods}
        for (method, cell), same in self._grouped(rows).items():
            by_method.setdefault(method, {})[cell] = self._measured(method, same)
        columns = tuple(slot.column for slot in self.slots)
        lines = [line for method, by_cell in by_method.items() for line in self._lines(method, by_cell)]
        measured = {(m, cell): one for m, by_cell in by_method.items() for cell, one in by_cell.items()}
        notes = (*_about_settings(measured), *self._about_plans(measured.values()), _QUOTED)
        return with_best(PaperTable(self.name, self.title, columns, tuple(lines), notes, stacked=self.stacked))

    def _grouped(self, rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
        groups: dict[tuple[str, str], list[Row]] = {}
        for row in sorted(rows, key=lambda row: (natural(row.learner), line_key(row))):
            groups.setdefault((self.application.method_of(row), row.cell), []).append(row)
        return groups

    def _measured(self, method: str, rows: Sequence[Row]) -> _Measured:
        taken, left_out = of_one_plan(rows)
        check_one_setting(taken, method)
        first = taken[0]
        expected = self.application.setting_in_paper(first)
        if expected is None:
            off_paper = [Difference("learner", first.learner, "none")]
        else:
            off_paper = differences_from_paper(first.config.values, expected)
        if first.evidence is not None:
            of_evidence = differences_from_paper(describe(first.evidence), describe(default_plan(first)), "evidence")
            off_paper += [item for item in of_evidence if item not in off_paper]
        return _Measured(method, taken, left_out, tuple(off_paper))

    def _lines(self, method: str, by_cell: Mapping[str, _Measured]) -> list[Line]:
        theirs = tuple(self.application.paper(method, slot) for slot in self.slots)
        ours = tuple(self._our_cell(by_cell.get(slot.cell), slot) for slot in self.slots)
        difference = tuple(map(_difference, ours, theirs))
        lines = {PAPER: theirs, OURS: ours, DIFFERENCE: difference}
        known = {source: cells for source, cells in lines.items() if any(cell.mean is not None for cell in cells)}
        return [Line(method, source, cells) for source, cells in known.items()]

    def _our_cell(self, measured: _Measured | None, slot: Slot) -> Cell:
        if measured is None:
            return Cell()
        return Cell.over_seeds(self.application.ours(measured.rows, slot), off_paper=bool(measured.off_paper))

    def _about_plans(self, measured: Iterable[_Measured]) -> list[str]:
        """Return a note for each choice among kinds of evidence; the cells of a method share one."""
        left_out: dict[tuple[str, str], set[str]] = {}
        for one in measured:
            if one.plans_left_out:
                taken = str(one.rows[0].evidence or "none")
                left_out.setdefault((one.method, taken), set()).update(one.plans_left_out)
        choices: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        for (method, taken), plans in left_out.items():
            choices.setdefault((taken, tuple(sorted(plans, key=natural))), []).append(method)
        return [
            f"{', '.join(methods)}: with evidence {taken}; energyalign table {self.application.any_runs} also shows "
            f"{', '.join(plans)}."
            for (taken, plans), methods in choices.items()
        ]


class _Measured(NamedTuple):
    """The rows of a method in a cell."""

    method: str
    rows: list[Row]
    plans_left_out: list[str]
    off_paper: tuple[Difference, ...]


def _difference(ours: Cell, theirs: Cell) -> Cell:
    if ours.mean is None or theirs.mean is None:
        return Cell()
    return Cell(ours.mean - theirs.mean, off_paper=ours.off_paper)


def _about_settings(measured: Mapping[tuple[str, str], _Measured]) -> list[str]:
    """Return a note for each set of differences from the paper's setting, the most frequent first."""
    groups: dict[tuple[Difference, ...], list[tuple[str, str]]] = {}
    for key, one in measured.items():
        if one.off_paper:
            groups.setdefault(one.off_paper, []).append(key)
    notes: list[str] = []
    for off_paper, keys in sorted(groups.items(), key=lambda item: -len(item[1])):
        settings = "; ".join(f"{what} is {ours}, in the paper {theirs}" for what, ours, theirs in off_paper)
        scope = f" for {', '.join(_names(keys, measured))}" if notes else ", except as noted below"
        notes.append(f"{MARK} not the paper's setting{scope if len(groups) > 1 else ''}: {settings}.")
    return notes


def _names(keys: Sequence[tuple[str, str]], measured: Iterable[tuple[str, str]]) -> list[str]:
    """Return methods, with their cells if there are several, or ``all on CELL`` if all of its methods are meant."""
    all_keys = list(measured)
    cells = dict.fromkeys(cell for _, cell in all_keys)
    if len(cells) == 1:
        return [method for method, _ in keys]
    names = []
    for cell in cells:
        here = [method for method, of_cell in keys if of_cell == cell]
        everything = len(here) == sum(of_cell == cell for _, of_cell in all_keys)
        names += [f"all on {cell}"] if everything else [f"{method} on {cell}" for method in here]
    return names
