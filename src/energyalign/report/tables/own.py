"""Tables of any runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.row import HEADLINE, Row, natural
from energyalign.experiments.engine.stored import of_one_plan
from energyalign.experiments.incremental.paper import PAPER as INCREMENTAL_PAPER
from energyalign.experiments.longtail.paper import PAPER as LONG_TAIL_PAPER
from energyalign.report.tables import incremental, longtail
from energyalign.report.tables.best import with_best
from energyalign.report.tables.combine import join_cells, join_seeds
from energyalign.report.tables.incremental import at_step, curves_by_seed
from energyalign.report.tables.model import (
    DIFFERENCE,
    MAX_BESIDE,
    OURS,
    PAPER,
    SEEDS,
    Cell,
    Column,
    Line,
    PaperTable,
    step_group,
)
from energyalign.report.tables.order import corrector_key
from energyalign.report.tables.settings import check_one_setting

Lines = Mapping[str, Sequence[Row]]
"""Rows of one cell by the name of their line."""
_ABOUT_PAPER = (
    "The paper quotes its methods other than ea from papers with other networks and subsets; a difference is shown for "
    "ea in the paper's setting."
)
_WITHOUT_FIRST = "Averages are over the steps from the second on, as in the paper."
_UNBALANCED = {"macro-F1": "macro_f1", "overall": "overall"}
"""Additional columns for test sets that are not balanced."""
_CALIBRATION = (("ece", "ECE", 100.0, 1), ("nll", "NLL", 1.0, 3), ("brier", "Brier", 1.0, 3))
"""Fields of rows, titles, factors and digits."""
_ABOUT_METRICS = (
    "Balanced accuracy is the mean over classes, s.e. its standard error over test images (mean over seeds). Balanced "
    "accuracy, s.e., macro-F1 and ECE (15 bins) in %; NLL in nats; Brier from 0 to 2."
)
_DIFFERENCE = Column("difference", better="", form="+.1f", source=DIFFERENCE)


def tables_of(rows: Sequence[Row], *, matrix: bool = False) -> list[PaperTable]:
    """Return the tables that commands, demo and page show of runs of one cell; `matrix` adds the matrix table."""
    if rows[0].in_steps:
        return [steps_table(rows), incremental_table(rows)]
    return [longtail_table(rows), *([matrix_table(rows)] if matrix else [])]


def longtail_table(rows: Sequence[Row], *, per_seed: bool = False) -> PaperTable:
    """Return long-tailed runs with a line for each method and kind of evidence."""
    rows = _checked(rows, "longtail", in_steps=False)
    return _make(longtail.lines_of(rows), _longtail, per_seed)


def incremental_table(rows: Sequence[Row], *, per_seed: bool = False) -> PaperTable:
    """Return incremental runs with a line for each method: averages, and the state after the last step."""
    rows = _checked(rows, "incremental", in_steps=True)
    return _make(incremental.lines_of(rows), _incremental, per_seed)


def steps_table(rows: Sequence[Row], *, per_seed: bool = False) -> PaperTable:
    """Return incremental runs with a line for each method and a column for each step."""
    rows = _checked(rows, "steps", in_steps=True)
    return _make(incremental.lines_of(rows), _steps, per_seed)


def matrix_table(rows: Sequence[Row], *, per_seed: bool = False) -> PaperTable:
    """Return a line for each training and a column for each corrector.

    As in the figure of this name, incremental runs are shown after the last step that all seeds of a training have.
    """
    rows = _checked(rows, "matrix")
    return _make((incremental if rows[0].in_steps else longtail).trainings_of(rows), _matrix, per_seed)


def metrics_table(rows: Sequence[Row], *, per_seed: bool = False) -> PaperTable:
    """Return a line for each method and kind of evidence: accuracy, its standard error, F1 and calibration.

    Incremental runs are shown after the last step that all seeds of a line have.
    """
    rows = _checked(rows, "metrics")
    return _make((incremental if rows[0].in_steps else longtail).lines_of(rows), _metrics, per_seed)


def _make(lines: Lines, build: Callable[[Lines], PaperTable], per_seed: bool) -> PaperTable:
    """Build the table of each cell, and join them."""
    tables = {}
    for cell in sorted({row.cell for same in lines.values() for row in same}, key=natural):
        of_cell = _part(lines, "cell", cell)
        if per_seed:
            seeds = sorted({row.seed for same in of_cell.values() for row in same})
            tables[cell] = join_seeds({seed: build(_part(of_cell, "seed", seed)) for seed in seeds})
        else:
            tables[cell] = with_best(build(of_cell))
    table = join_cells(tables)
    places = {name: place for place, name in enumerate(lines)}
    ordered = sorted(table.lines, key=lambda line: places.get(line.method, len(places)))
    if table.name != "matrix":  # its lines are trainings
        ordered = [replace(line, other_names=_other_names(line.method, lines[line.method])) for line in ordered]
    return replace(table, lines=tuple(ordered))


def _other_names(name: str, rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the other names of a line, each with the suffixes for memory and evidence."""
    names = dict.fromkeys(each for row in rows for each in names_of(row))
    added = name.removeprefix(max(filter(name.startswith, names), key=len))
    return tuple(each + added for each in names if each + added != name)


def names_of(row: Row) -> tuple[str, ...]:
    """Return the names that a row can be selected by: corrector, method, and ``training + corrector``."""
    if row.in_steps:
        return row.corrector, incremental.label_of(row), f"{incremental.training_of(row)} + {row.corrector}"
    return row.corrector, longtail.method_of(row), f"{longtail.training_of(row)} + {row.corrector}"


def _part(lines: Lines, field: str, value: object) -> Lines:
    """Keep the rows with this value; drop lines that have none."""
    parts = {name: [row for row in same if getattr(row, field) == value] for name, same in lines.items()}
    return {name: same for name, same in parts.items() if same}


def _longtail(lines: Lines) -> PaperTable:
    rows = [row for same in lines.values() for row in same]
    has_paper = rows[0].cell in LONG_TAIL_PAPER
    head, *groups = longtail.COLUMNS
    accuracies = {head: head, **_unbalanced(rows), **{name: name for name in groups}}
    made = []
    for name, same in lines.items():
        cells = [_over_seeds(same, column) for column in accuracies.values()]
        cells.append(Cell(len(same)))
        if has_paper:
            paper = longtail.paper_of(same)
            cells += [Cell(paper.overall if paper else None), Cell(longtail.difference_of(same))]
        made.append(Line(name, "", tuple(cells)))
    columns = (*map(Column, accuracies), SEEDS, *((_paper("paper"), _DIFFERENCE) if has_paper else ()))
    notes = (_ABOUT_PAPER,) if has_paper else ()
    return PaperTable("longtail", f"Top-1 accuracy (%) on {rows[0].cell}", columns, tuple(made), notes)


def _incremental(lines: Lines) -> PaperTable:
    rows = [row for same in lines.values() for row in same]
    has_paper = rows[0].cell in INCREMENTAL_PAPER
    beside = _unbalanced(rows)
    made = []
    for name, same in lines.items():
        curves = curves_by_seed(same)
        at_end = [_over_seeds([curve.last for curve in curves], column) for column in beside.values()]
        cells = [*map(Cell.over_seeds, incremental.summary_of(curves)), *at_end, Cell(len(curves))]
        if has_paper:
            paper = incremental.paper_of(curves)
            cells += map(Cell, (paper.average1, paper.average5, incremental.difference_of(curves)))
        made.append(Line(name, "", tuple(cells)))
    columns = [Column(name, better="lower" if name == "forgetting" else "higher") for name in incremental.SUMMARY]
    columns += [*map(Column, beside), SEEDS]
    columns += [_paper("paper"), _paper("paper, top-5"), _DIFFERENCE] if has_paper else []
    notes = [_ABOUT_PAPER] if has_paper else []
    after = ", ".join(["Old, new, forgetting", *beside])
    notes += [f"{_WITHOUT_FIRST} {after}: after the last step.", *_unfinished(lines)]
    title = f"Accuracy (%) on {rows[0].cell} over {rows[0].n_steps} steps"
    return PaperTable("incremental", title, tuple(columns), tuple(made), tuple(notes))


def _steps(lines: Lines) -> PaperTable:
    first = next(iter(lines.values()))[0]
    steps = range(1, first.n_steps + 1)
    columns = tuple(Column(f"{step}", step_group(step, first.n_steps)) for step in steps)
    curves = {name: curves_by_seed(same) for name, same in lines.items()}
    made = tuple(
        Line(name, OURS, tuple(Cell.over_seeds(at_step(of_line, step)) for step in steps))
        for name, of_line in curves.items()
    )
    title = f"Top-1 accuracy (%) on {first.cell}, all classes seen, after each of {first.n_steps} steps"
    return PaperTable("steps", title, columns, made, _unfinished(lines), stacked=first.n_steps > MAX_BESIDE)


def _matrix(trainings: Lines) -> PaperTable:
    rows = [row for of_training in trainings.values() for row in of_training]
    in_steps = rows[0].in_steps
    correctors = sorted({row.corrector for row in rows}, key=corrector_key)
    last = {name: _last_step(of) for name, of in trainings.items()}
    lines, notes = [], list(_unfinished(incremental.lines_of(rows)) if in_steps else ())
    for training, of_training in trainings.items():
        cells = []
        for corrector in correctors:
            same = [row for row in of_training if (row.corrector, row.step) == (corrector, last[training])]
            taken, left_out = of_one_plan(same)
            cells.append(_over_seeds(taken, HEADLINE))
            if left_out:
                plan, others = taken[0].evidence or "none", ", ".join(left_out)
                notes.append(f"{training} + {corrector}: with evidence {plan}; rows with {others} are left out.")
        when = f", after step {last[training]}" if in_steps and len(set(last.values())) > 1 else ""
        lines.append(Line(training + when, OURS, tuple(cells)))
    one_step = in_steps and len(set(last.values())) == 1
    when = f" after step {last.popitem()[1]} of {rows[0].n_steps}" if one_step else ""
    title = f"Top-1 accuracy (%) on {rows[0].cell}{when}: trainings and the correctors behind them"
    columns = tuple(map(Column, correctors))
    return PaperTable("matrix", title, columns, tuple(lines), tuple(notes), corner="training", best_of="line")


def _metrics(lines: Lines) -> PaperTable:
    rows = [row for same in lines.values() for row in same]
    beside = {"macro-F1": "macro_f1", **_unbalanced(rows)}
    made = []
    for name, of_line in lines.items():
        last = _last_step(of_line)
        same = [row for row in of_line if row.step == last]
        errors = Cell.over_seeds({row.seed: row.standard_error for row in same})
        cells = [_over_seeds(same, HEADLINE), errors, *(_over_seeds(same, column) for column in beside.values())]
        for field, _, scale, digits in _CALIBRATION:
            numbers = {row.seed: getattr(row, field) for row in same}
            cells.append(Cell.over_seeds(numbers, scale=scale, digits=digits))
        made.append(Line(name, "", (*cells, Cell(len({row.seed for row in same})))))
    columns = [Column(HEADLINE), Column("s.e.", better=""), *map(Column, beside)]
    columns += [Column(title, better="lower", form=f".{digits}f") for _, title, _, digits in _CALIBRATION]
    notes = (_ABOUT_METRICS, *(_unfinished(lines) if rows[0].in_steps else ()))
    title = f"Accuracy and calibration on {rows[0].cell}"
    return PaperTable("metrics", title, (*columns, SEEDS), tuple(made), notes)


def describe_row(row: Row, training: str = "") -> str:
    """Describe a row: ``ce (linear) + ea, evidence one x 50, seed 0``; `training` overrides the training's name."""
    training = training or (incremental if row.in_steps else longtail).training_of(row)
    evidence = f", evidence {row.evidence}" if row.evidence else ""
    step = f", step {row.step}" if row.in_steps else ""
    return f"{training} + {row.corrector}{evidence}, seed {row.seed}{step}"


def _unbalanced(rows: Sequence[Row]) -> dict[str, str]:
    """Return the columns for test sets that are not balanced; none for balanced ones."""
    return {} if all(row.has_balanced_test for row in rows) else _UNBALANCED


def _over_seeds(rows: Sequence[Row], column: str) -> Cell:
    return Cell.over_seeds({row.seed: row.accuracy(column) for row in rows})


def _paper(title: str) -> Column:
    return Column(title, better="", source=PAPER)


def _checked(rows: Sequence[Row], table: str, *, in_steps: bool | None = None) -> Sequence[Row]:
    """Return the rows of the table's kind; raise if there are none, or trainings with several settings."""
    if not rows:
        raise EnergyAlignError(f"the table {table} needs at least one row, got none.")
    kinds = {row.in_steps for row in rows}
    if in_steps not in (None, *kinds):
        expected, got, other = "long-tailed", "incremental", "incremental"
        if in_steps:
            expected, got, other = "incremental", "long-tailed", "longtail"
        raise EnergyAlignError(
            f"the table {table} must be of {expected} runs, got {got} runs: use energyalign table {other}."
        )
    if in_steps is not None:
        rows = [row for row in rows if row.in_steps == in_steps]
    elif len(kinds) > 1:
        raise EnergyAlignError(
            f"the table {table} must be of long-tailed or of incremental runs, got both: give one kind."
        )
    training_of = (incremental if rows[0].in_steps else longtail).training_of
    for cell, training in dict.fromkeys((row.cell, training_of(row)) for row in rows):
        check_one_setting((row for row in rows if (row.cell, training_of(row)) == (cell, training)), training)
    return rows


def _last_step(rows: Sequence[Row]) -> int:
    """Return the last step that all seeds of these rows have reached."""
    reached: dict[int, int] = {}
    for row in rows:
        reached[row.seed] = max(row.step, reached.get(row.seed, 0))
    return min(reached.values())


def _unfinished(lines: Lines) -> tuple[str, ...]:
    """Return a note for each line with unfinished runs."""
    notes = []
    for name, same in lines.items():
        parts = [curve for curve in curves_by_seed(same) if not curve.is_whole]
        if parts:
            runs = "; ".join(f"{len(c.rows)} of {c.last.n_steps} steps of seed {c.last.seed}" for c in parts)
            notes.append(f"{name} is not finished: {runs}.")
    return tuple(notes)
