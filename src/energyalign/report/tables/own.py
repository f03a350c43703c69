"""Tables of any runs: those that the commands print after their runs, and every step and corrector."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.row import HEADLINE, Row
from energyalign.experiments.engine.stored import of_one_plan
from energyalign.experiments.incremental.paper import PAPER as INCREMENTAL_PAPER
from energyalign.experiments.longtail.paper import PAPER as LONG_TAIL_PAPER
from energyalign.report.tables import incremental, longtail
from energyalign.report.tables.incremental import at_step, curves_of
from energyalign.report.tables.model import (
    DIFFERENCE,
    MAX_BESIDE,
    OURS,
    PAPER,
    Cell,
    Column,
    Line,
    PaperTable,
    step_group,
    with_best,
    with_best_of_line,
)
from energyalign.report.tables.settings import check_one_cell, check_one_setting

_ABOUT_PAPER = (
    "The paper quotes its rows other than ea from other papers, with networks and cuts of their own; a difference is "
    "shown for ea, where all settings are the paper's."
)
_WITHOUT_FIRST = "Averages are over the steps from the second on, as in the paper."
_SEEDS = Column("seeds", better="", form=".0f")
_UNBALANCED = {"macro-F1": "macro_f1", "overall": "overall"}
"""What stands beside the balanced accuracy where the test set is not balanced."""
_CALIBRATION = (("ece", "ECE", 100.0, 1), ("nll", "NLL", 1.0, 3), ("brier", "Brier", 1.0, 3))
"""Fields of rows, titles, factors and digits."""
_ABOUT_METRICS = (
    "Balanced accuracy is the mean over classes, s.e. its standard error over test images (mean over seeds). Balanced "
    "accuracy, s.e., macro-F1 and ECE (15 bins) are in %, NLL in nats, Brier from 0 to 2."
)
_DIFFERENCE = Column("difference", better="", form="+.1f", source=DIFFERENCE)


def tables_of(rows: Sequence[Row], *, matrix: bool = False) -> list[PaperTable]:
    """What commands, demo and page show of runs of one cell; with `matrix`, correctors behind several trainings too."""
    if rows[0].in_steps:
        return [steps_table(rows), incremental_table(rows)]
    return [longtail_table(rows), *([matrix_table(rows)] if matrix else [])]


def longtail_table(rows: Sequence[Row]) -> PaperTable:
    """A line for each method and kind of evidence of long-tailed runs."""
    _check(rows, "longtail", in_steps=False)
    _check_trainings(rows, longtail.training_of)
    has_paper = rows[0].cell in LONG_TAIL_PAPER  # not missing elsewhere: the paper has no such table
    head, *groups = longtail.COLUMNS
    accuracies = {head: head, **_unbalanced(rows), **{name: name for name in groups}}
    lines = []
    for name, same in longtail.lines_of(rows).items():
        cells = [Cell.over_seeds([row.accuracy(column) for row in same]) for column in accuracies.values()]
        cells.append(Cell(len(same)))
        if has_paper:
            paper = longtail.paper_of(same)
            cells += [Cell(paper.overall if paper else None), Cell(longtail.difference_of(same))]
        lines.append(Line(name, "", tuple(cells)))
    columns = [*map(Column, accuracies), _SEEDS, *([_paper("paper"), _DIFFERENCE] if has_paper else [])]
    title = f"Top-1 accuracy (%) on {rows[0].cell}"
    return _by_column("longtail", title, columns, lines, [_ABOUT_PAPER] if has_paper else [])


def incremental_table(rows: Sequence[Row]) -> PaperTable:
    """A line for each method of runs in steps: averages, and the state after the last step."""
    _check(rows, "incremental", in_steps=True)
    _check_trainings(rows, incremental.training_of)
    has_paper = rows[0].cell in INCREMENTAL_PAPER
    beside = _unbalanced(rows)
    lines = []
    for name, curves in curves_of(rows).items():
        at_end = [[curve.last.accuracy(column) for curve in curves] for column in beside.values()]
        cells = [*map(Cell.over_seeds, [*incremental.summary_of(curves), *at_end]), Cell(len(curves))]
        if has_paper:
            paper = incremental.paper_of(curves)
            cells += map(Cell, (paper.average1, paper.average5, incremental.difference_of(curves)))
        lines.append(Line(name, "", tuple(cells)))
    columns = [Column(name, better="lower" if name == "forgetting" else "higher") for name in incremental.SUMMARY]
    columns += [
        *map(Column, beside),
        _SEEDS,
        *([_paper("paper"), _paper("paper, top-5"), _DIFFERENCE] if has_paper else []),
    ]
    notes = [_ABOUT_PAPER] if has_paper else []
    after = ", ".join(["Old, new, forgetting", *beside])
    notes += [f"{_WITHOUT_FIRST} {after}: after the last step.", *_unfinished(rows)]
    title = f"Accuracy (%) on {rows[0].cell} over {rows[0].n_steps} steps"
    return _by_column("incremental", title, columns, lines, notes)


def steps_table(rows: Sequence[Row]) -> PaperTable:
    """A line for each method of runs in steps, a column for each step."""
    _check(rows, "steps", in_steps=True)
    _check_trainings(rows, incremental.training_of)
    n_steps = rows[0].n_steps
    steps = range(1, n_steps + 1)
    columns = [Column(f"{step}", step_group(step, n_steps)) for step in steps]
    lines = [
        Line(name, OURS, tuple(Cell.over_seeds(at_step(curves, step)) for step in steps))
        for name, curves in curves_of(rows).items()
    ]
    title = f"Top-1 accuracy (%) on {rows[0].cell}, all classes seen, after each of {n_steps} steps"
    return _by_column("steps", title, columns, lines, _unfinished(rows), stacked=n_steps > MAX_BESIDE)


def matrix_table(rows: Sequence[Row]) -> PaperTable:
    """A line for each training, a column for each corrector behind it.

    As in the figure of this name, a training in steps is as it is after the last step that all of its seeds have.
    """
    check_one_cell(rows, "matrix")
    in_steps = rows[0].in_steps
    training_of = incremental.training_of if in_steps else longtail.training_of
    _check_trainings(rows, training_of)
    correctors = list(dict.fromkeys(row.corrector for row in rows))
    trainings: dict[str, list[Row]] = {}
    for row in rows:
        trainings.setdefault(training_of(row), []).append(row)
    last = {name: _last_step(of) for name, of in trainings.items()}
    lines, notes = [], _unfinished(rows) if in_steps else []
    for training, of_training in trainings.items():
        cells = []
        for corrector in correctors:
            same = [row for row in of_training if (row.corrector, row.step) == (corrector, last[training])]
            taken, left_out = of_one_plan(same)
            cells.append(Cell.over_seeds(list({row.seed: row.balanced for row in taken}.values())))
            if left_out:
                plan, others = taken[0].evidence or "none", ", ".join(left_out)
                notes.append(f"{training} + {corrector}: with evidence {plan}; measured with {others} too.")
        when = f", after step {last[training]}" if in_steps and len(set(last.values())) > 1 else ""
        lines.append(with_best_of_line(Line(training + when, OURS, tuple(cells))))
    one_step = in_steps and len(set(last.values())) == 1
    when = f" after step {last.popitem()[1]} of {rows[0].n_steps}" if one_step else ""
    title = f"Top-1 accuracy (%) on {rows[0].cell}{when}: trainings and the correctors behind them"
    columns = tuple(map(Column, correctors))
    return PaperTable("matrix", title, columns, tuple(lines), tuple(notes), corner="training", best_of="line")


def metrics_table(rows: Sequence[Row]) -> PaperTable:
    """A line for each method and kind of evidence: accuracy, its standard error, F1 and calibration.

    Of runs in steps, after the last step that all seeds of a line have.
    """
    check_one_cell(rows, "metrics")
    in_steps = rows[0].in_steps
    _check_trainings(rows, incremental.training_of if in_steps else longtail.training_of)
    beside = {"macro-F1": "macro_f1", **_unbalanced(rows)}
    lines = []
    for name, same in (_at_end(rows) if in_steps else longtail.lines_of(rows)).items():
        shares: list[list[float | None]] = [[row.balanced for row in same], [row.standard_error for row in same]]
        shares += [[row.accuracy(column) for row in same] for column in beside.values()]
        cells = [*map(Cell.over_seeds, shares)]
        for field, _, scale, digits in _CALIBRATION:
            cells.append(Cell.over_seeds([getattr(row, field) for row in same], scale=scale, digits=digits))
        lines.append(Line(name, "", (*cells, Cell(len(same)))))
    columns = [Column(HEADLINE), Column("s.e.", better=""), *map(Column, beside)]
    columns += [Column(title, better="lower", form=f".{digits}f") for _, title, _, digits in _CALIBRATION]
    columns.append(_SEEDS)
    notes = [_ABOUT_METRICS, *(_unfinished(rows) if in_steps else [])]
    return _by_column("metrics", f"Accuracy and calibration on {rows[0].cell}", columns, lines, notes)


def describe_row(row: Row, training: str = "") -> str:
    """Which row it is, in words: ``ce (linear) + ea, evidence one x 50, seed 0``; `training` is another name for it."""
    training = training or (incremental if row.in_steps else longtail).training_of(row)
    evidence = f", evidence {row.evidence}" if row.evidence else ""
    step = f", step {row.step}" if row.in_steps else ""
    return f"{training} + {row.corrector}{evidence}, seed {row.seed}{step}"


def _unbalanced(rows: Sequence[Row]) -> dict[str, str]:
    """The columns beside the balanced accuracy; none where it is the share of images that are right."""
    return {} if all(row.has_balanced_test for row in rows) else _UNBALANCED


def _at_end(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each line after the last step that all of its seeds have."""
    lines = {}
    for name, curves in curves_of(rows).items():
        last = min(curve.last.step for curve in curves)
        lines[name] = [row for curve in curves for row in curve.rows if row.step == last]
    return lines


def _by_column(
    name: str, title: str, columns: Sequence[Column], lines: Sequence[Line], notes: Sequence[str], *,
    stacked: bool = False,
) -> PaperTable:  # fmt: skip
    """With the best number of each column in bold."""
    return PaperTable(name, title, tuple(columns), with_best(lines, columns), tuple(notes), stacked=stacked)


def _paper(title: str) -> Column:
    return Column(title, better="", source=PAPER)


def _check(rows: Sequence[Row], table: str, *, in_steps: bool) -> None:
    """Rows of the other application, of several cells, or none at all have no such table."""
    check_one_cell(rows, table)
    if rows[0].in_steps != in_steps:
        kind, other = ("long-tailed runs", "longtail") if in_steps else ("runs in steps", "incremental")
        raise EnergyAlignError(f"these are {kind}, which the table {table} is not for: use energyalign table {other}.")


def _check_trainings(rows: Sequence[Row], training_of: Callable[[Row], str]) -> None:
    for training in dict.fromkeys(map(training_of, rows)):
        check_one_setting((row for row in rows if training_of(row) == training), training)


def _last_step(rows: Sequence[Row]) -> int:
    """That all seeds of a training have come to."""
    reached: dict[int, int] = {}
    for row in rows:
        reached[row.seed] = max(row.step, reached.get(row.seed, 0))
    return min(reached.values())


def _unfinished(rows: Sequence[Row]) -> list[str]:
    """A note for each line with a run that has not come to its last step."""
    notes = []
    for name, curves in curves_of(rows).items():
        parts = [curve for curve in curves if not curve.is_whole]
        if parts:
            runs = "; ".join(f"{len(c.rows)} of {c.last.n_steps} steps of seed {c.last.seed}" for c in parts)
            notes.append(f"{name} is not whole: {runs}.")
    return notes
