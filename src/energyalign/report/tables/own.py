"""Tables of any runs: those that the commands print after their runs, and every step and corrector."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from energyalign.core.errors import EnergyAlignError
from energyalign.experiment.rows import Row
from energyalign.incremental.table import curves_of, summary_table
from energyalign.longtail.methods import head_of
from energyalign.longtail.paper import PAPER
from energyalign.longtail.table import table_of
from energyalign.report.tables.best import with_best
from energyalign.report.tables.evidence import first_plan, told
from energyalign.report.tables.model import OURS, Cell, Column, Line, PaperTable
from energyalign.report.tables.settings import check_one_cell, check_one_setting
from energyalign.report.tables.steps import MOST_BESIDE, curves_by_seed, step_group

_ABOUT_PAPER = (
    "The paper quotes its rows other than ea from other papers, with networks and cuts of their own; a difference is "
    "shown for ea, where all settings are the paper's."
)
_WITHOUT_FIRST = "Averages are over the steps from the second on, as in the paper."


def longtail_table(rows: Sequence[Row]) -> PaperTable:
    """A line for each method and kind of evidence of long-tailed runs."""
    _check(rows, "longtail", is_incremental=False)
    _check_trainings(rows, _long_tail_training)
    columns, lines = table_of(rows)
    if rows[0]["cell"] not in PAPER:  # not missing there: the paper has no such table
        columns, lines = columns[:-2], [line[:-2] for line in lines]
    return _of_text("longtail", f"Top-1 accuracy (%) on {rows[0]['cell']}", columns, lines)


def incremental_table(rows: Sequence[Row]) -> PaperTable:
    """A line for each method of runs in steps: averages, and the state after the last step."""
    _check(rows, "incremental", is_incremental=True)
    _check_trainings(rows, _incremental_training)
    notes = [f"{_WITHOUT_FIRST} Old, new, forgetting: after the last step.", *_unfinished(rows)]
    title = f"Accuracy (%) on {rows[0]['cell']} over {rows[0]['n_steps']} steps"
    return _of_text("incremental", title, *summary_table(rows), notes)


def steps_table(rows: Sequence[Row]) -> PaperTable:
    """A line for each method of runs in steps, a column for each step."""
    _check(rows, "steps", is_incremental=True)
    _check_trainings(rows, _incremental_training)
    n_steps = rows[0]["n_steps"]
    columns = [Column(f"{step}", step_group(step, n_steps)) for step in range(1, n_steps + 1)]
    lines = []
    for name, curves in curves_of(rows).items():
        of_all = [row for curve in curves for row in curve.rows]
        by_step = ([row["overall"] for row in of_all if row["step"] == step] for step in range(1, n_steps + 1))
        lines.append(Line(name, OURS, tuple(map(Cell.over_seeds, by_step))))
    title = f"Top-1 accuracy (%) on {rows[0]['cell']}, all classes seen, after each of {n_steps} steps"
    return _finished("steps", title, columns, lines, _unfinished(rows), stacked=n_steps > MOST_BESIDE)


def matrix_table(rows: Sequence[Row]) -> PaperTable:
    """A line for each training, a column for each corrector behind it."""
    check_one_cell(rows, "matrix")
    is_incremental = _is_incremental(rows[0])
    training_of = _incremental_training if is_incremental else _long_tail_training
    _check_trainings(rows, training_of)
    correctors = list(dict.fromkeys(row["corrector"] for row in rows))
    notes = [_WITHOUT_FIRST, *_unfinished(rows)] if is_incremental else []
    lines = []
    for training in dict.fromkeys(map(training_of, rows)):
        cells = []
        for corrector in correctors:
            same = [row for row in rows if training_of(row) == training and row["corrector"] == corrector]
            taken, left_out = first_plan(same) if same else ([], [])
            cells.append(Cell.over_seeds(_averages(taken) if is_incremental else _overall(taken)))
            if left_out:
                plan, others = told(taken[0]["evidence"]), ", ".join(left_out)
                notes.append(f"{training} + {corrector}: with evidence {plan}; measured with {others} too.")
        lines.append(Line(training, OURS, tuple(cells)))
    title = f"Top-1 accuracy (%) on {rows[0]['cell']}: trainings and the correctors behind them"
    return _finished("matrix", title, [Column(name) for name in correctors], lines, notes, corner="training")


def _of_text(
    name: str, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()
) -> PaperTable:
    """A table of `energyalign.longtail.table` or `energyalign.incremental.table`, whose cells are text."""
    seeds = columns.index("seeds")
    lines = [Line(row[0], "", tuple(_cell(text, int(row[seeds])) for text in row[1:])) for row in rows]
    notes = [*([_ABOUT_PAPER] if "paper" in columns else []), *notes]
    return _finished(name, title, [_column(heading) for heading in columns[1:]], lines, notes)


def _finished(
    name: str, title: str, columns: Sequence[Column], lines: Sequence[Line], notes: Sequence[str], *,
    corner: str = "method", stacked: bool = False,
) -> PaperTable:  # fmt: skip
    return PaperTable(name, title, tuple(columns), with_best(lines, columns), tuple(notes), corner, stacked)


def _column(title: str) -> Column:
    if title.startswith("paper"):
        return Column(title, better="")
    special = {
        "seeds": Column("seeds", better="", form=".0f"),
        "difference": Column("difference", better="", form="+.1f"),
        "forgetting": Column("forgetting", better="lower"),
    }
    return special.get(title, Column(title))


def _cell(text: str, n: int) -> Cell:
    """What `energyalign.experiment.cells.mean_and_deviation` was given, to the digit it printed."""
    mean, _, deviation = text.partition(" ± ")
    if mean in ("", "-"):
        return Cell()
    return Cell(float(mean), float(deviation) if deviation else None, n)


def _is_incremental(row: Row) -> bool:
    return "step" in row


def _check(rows: Sequence[Row], table: str, *, is_incremental: bool) -> None:
    """Rows of the other application, of several cells, or none at all have no such table."""
    check_one_cell(rows, table)
    if _is_incremental(rows[0]) != is_incremental:
        kind, other = ("long-tailed runs", "longtail") if is_incremental else ("runs in steps", "incremental")
        raise EnergyAlignError(f"these are {kind}, which the table {table} is not for: use energyalign table {other}.")


def _check_trainings(rows: Sequence[Row], training_of: Callable[[Row], str]) -> None:
    for training in dict.fromkeys(map(training_of, rows)):
        check_one_setting((row for row in rows if training_of(row) == training), training)


def _long_tail_training(row: Row) -> str:
    learner, head = row["learner"], row["config"]["head"]
    return str(learner) if head == head_of(learner) else f"{learner} ({head})"


def _incremental_training(row: Row) -> str:
    config = row["config"]
    words = [config["head"], row["memory"]]
    if row["fed_back"] != "raw":
        words.append(f"fed back: {row['fed_back']}")
    elif config["held_out"]:
        words.append("held out")
    return f"{row['learner']} ({', '.join(words)})"


def _overall(rows: Sequence[Row]) -> list[float]:
    return list({row["seed"]: row["overall"] for row in rows}.values())


def _averages(rows: Sequence[Row]) -> list[float | None]:
    """Of each seed; missing for a run that is not finished."""
    return [curve.average() if curve.is_whole else None for curve in curves_by_seed(rows)]


def _unfinished(rows: Sequence[Row]) -> list[str]:
    """A note for each line with a run that has not come to its last step."""
    notes = []
    for name, curves in curves_of(rows).items():
        parts = [curve for curve in curves if not curve.is_whole]
        if parts:
            runs = "; ".join(f"{len(c.rows)} of {c.last['n_steps']} steps of seed {c.last['seed']}" for c in parts)
            notes.append(f"{name} is not whole: {runs}.")
    return notes
