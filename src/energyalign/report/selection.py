"""Selection of rows by conditions such as ``seed=0``, and of lines and columns of a table by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from energyalign.core.errors import EnergyAlignError, count_of
from energyalign.experiments.engine.row import Row, natural
from energyalign.experiments.engine.stored import ResultRows, StoredRun
from energyalign.report.tables import TABLES, TableEntry
from energyalign.report.tables.best import with_best
from energyalign.report.tables.combine import join_columns
from energyalign.report.tables.model import SEEDS, PaperTable
from energyalign.report.tables.own import names_of
from energyalign.report.trainings import leaves_of

Where = Mapping[str, tuple[str, ...]]
"""Accepted values of each key; a row must match all keys."""
KEYS = (
    "cell", "dataset", "method", "learner", "corrector", "evidence", "policy", "per_class", "seed", "step", "memory",
    "fed_back", "estimator", "head", "backbone", "epochs", "optimizer", "lr",
)  # fmt: skip
"""Keys of every row. A key can also be a setting of config.json, such as ``imbalance`` or ``recipe.batch_size``."""

WITH_METRICS = ("longtail", "incremental")
"""Tables with the lines of the table ``metrics``, whose columns they can have too."""


def parse_where(words: Iterable[str]) -> Where:
    """Parse conditions of the command line.

    Parameters
    ----------
    words : iterable of str
        ``KEY=VALUE`` each. Values of the same key are alternatives. A value may be a pattern: ``method=la-*``.
    """
    where: dict[str, tuple[str, ...]] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not (key and equals and value):
            raise EnergyAlignError(f"--where must be KEY=VALUE, such as seed=0, got {word!r}. Give run folders first.")
        where[key] = (*where.get(key, ()), value)
    return where


def conditions(**values: Any) -> Where:
    """Return conditions from keywords: a value or a list of alternatives each; ``recipe__lr`` is ``recipe.lr``."""
    where = {}
    for key, value in values.items():
        alternatives = value if isinstance(value, Iterable) and not isinstance(value, str) else [value]
        where[key.replace("__", ".")] = tuple(map(str, alternatives))
    return where


def select_rows(rows: Sequence[Row], where: Where) -> ResultRows:
    """Return the rows that match all conditions; raise with the values to choose from if there are none."""
    left = [(row, values_of(row) if where else {}) for row in rows]
    before: list[str] = []
    for key, wanted in where.items():
        measured = list(dict.fromkeys(values[key] for _, values in left if key in values))
        if not measured:
            raise EnergyAlignError(
                f"unknown key {key!r}: choose one of {', '.join(KEYS)}, or a setting of config.json such as "
                "imbalance or recipe.batch_size."
            )
        left = [(row, values) for row, values in left if key in values and _matches(values[key], wanted)]
        condition = f"{key}={' or '.join(wanted)}"
        if not left:
            among = f" with {', '.join(before)}" if before else ""
            choice = ", ".join(sorted(measured, key=natural))
            raise EnergyAlignError(f"no row{among} has {condition}: choose {key} from {choice}.")
        before.append(condition)
    return ResultRows(row for row, _ in left)


def select_runs(runs: Sequence[StoredRun], where: Where) -> list[StoredRun]:
    """Return the runs with only the rows that match all conditions; runs without any are left out."""
    return keep_rows(runs, select_rows([row for run in runs for row in run.rows], where))


def select_named(runs: Sequence[StoredRun], names: Sequence[str]) -> list[StoredRun]:
    """Return the runs with only the rows that a name or pattern matches, as in `names_of`; all rows without names."""
    rows = [row for run in runs for row in run.rows]
    called = [names_of(row) if names else () for row in rows]
    known = sorted({name for of_row in called for name in of_row[:2]}, key=natural)
    return keep_rows(runs, [rows[index] for index in _match(called, names, "row", known)])


def keep_rows(runs: Sequence[StoredRun], rows: Iterable[Row]) -> list[StoredRun]:
    """Return the runs with only these of their rows; runs without any are left out."""
    kept = set(map(id, rows))
    selected = [replace(run, rows=[row for row in run.rows if id(row) in kept]) for run in runs]
    return [run for run in selected if run.rows]


def make_part(
    entry: TableEntry, rows: Sequence[Row], lines: Sequence[str] = (), columns: Sequence[str] = (), *,
    per_seed: bool = False,
) -> PaperTable:  # fmt: skip
    """Return a part of the table of these rows, without notes on lines that it does not show; see `select_part`.

    The tables `WITH_METRICS` also have the columns of the table ``metrics``, if `columns` names one.
    """
    table = entry.make(rows, per_seed=per_seed)
    known = [name for names in _column_names(table) for name in names]
    if entry.name in WITH_METRICS and any(not any(match_any(name, [one]) for name in known) for one in columns):
        of_kind = [row for row in rows if row.in_steps == (entry.name == "incremental")]
        table = join_columns(table, TABLES["metrics"].make(of_kind, per_seed=per_seed))
    part = select_part(table, lines, columns)
    if not (entry.cells and lines):  # in other tables, the names of lines depend on all rows
        return part
    shown = {line.method for line in part.lines}
    return select_part(entry.make([row for row in rows if names_of(row)[1] in shown]), lines, columns)


def select_part(table: PaperTable, rows: Sequence[str] = (), columns: Sequence[str] = ()) -> PaperTable:
    """Return the table with only the lines and columns of these names or patterns, and mark its best again.

    Parameters
    ----------
    table : PaperTable
    rows, columns : sequence of str, default ()
        In the order to show them; empty for all. A column is named by its title, its group, or both: ``few``,
        ``CIFAR-10-LT``, ``CIFAR-10-LT, 50``. Groups stay together.
    """
    names = [[line.method, *line.other_names] for line in table.lines]
    lines = _match(names, rows, f"row of the table {table.name}", [line.method for line in table.lines])
    titles = [column.title for column in table.columns]
    order = _match(_column_names(table), columns, f"column of the table {table.name}", titles)
    groups = [column.group for column in table.columns]
    order.sort(key=lambda index: groups.index(groups[index]))
    cut = [replace(table.lines[k], cells=tuple(table.lines[k].cells[index] for index in order)) for k in lines]
    shown = replace(table, lines=tuple(cut), columns=tuple(table.columns[index] for index in order))
    if SEEDS in {replace(column, group="") for column in {*table.columns} - {*shown.columns}}:
        shown = replace(shown, notes=(*shown.notes, *_about_seeds(shown)))
    return with_best(shown)


def _column_names(table: PaperTable) -> list[list[str]]:
    return [[column.title, column.group, column.full_title] for column in table.columns]


def _about_seeds(table: PaperTable) -> list[str]:
    """Return a note on lines with fewer seeds than others."""
    seeds = {line.method: max((len(cell.by_seed) for cell in line.cells), default=0) for line in table.lines}
    most = max(seeds.values(), default=0)
    fewer = [f"{name} ({count_of(n, 'seed')})" for name, n in seeds.items() if 0 < n < most]
    return [f"Fewer than {most} seeds: {', '.join(fewer)}."] if fewer else []


def _match(names: Sequence[Sequence[str]], patterns: Sequence[str], what: str, known: Sequence[str]) -> list[int]:
    """Return the indices of the items with a matching name, in the order of the patterns; all without patterns."""
    if not patterns:
        return list(range(len(names)))
    found: dict[int, None] = {}
    for pattern in patterns:
        matching = [index for index, of_one in enumerate(names) if any(match_any(name, [pattern]) for name in of_one)]
        if not matching:
            raise EnergyAlignError(f"no {what} matches {pattern!r}: choose from {', '.join(dict.fromkeys(known))}.")
        found |= dict.fromkeys(matching)
    return list(found)


def values_of(row: Row) -> dict[str, str]:
    """Return the values that conditions apply to, as text."""
    plan, config = row.evidence, row.config
    named = {
        "cell": row.cell,
        "dataset": config.values.get("dataset"),
        "method": names_of(row)[1],
        "learner": row.learner,
        "corrector": row.corrector,
        "evidence": plan,
        "policy": plan and plan.policy,
        "per_class": plan and plan.per_class,
        "seed": row.seed,
        "step": row.step,
        "memory": row.memory,
        "fed_back": row.fed_back,
        "estimator": row.estimator,
        "head": config.head,
        "backbone": config.backbone,
        "epochs": config.epochs,
        "optimizer": str(config.optimizer["kind"]).lower(),
        "lr": config.optimizer.get("lr"),
    }
    return leaves_of(config.values) | {key: "none" if value is None else str(value) for key, value in named.items()}


def match_any(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a name equals or matches one of the patterns, as in `fnmatch`, ignoring case."""
    return any(name == pattern or fnmatchcase(name.lower(), pattern.lower()) for pattern in patterns)


def _matches(value: str, wanted: Iterable[str]) -> bool:
    """Compare as text, and as numbers: 100 matches 1e2."""
    number = _number(value)
    return match_any(value, wanted) or (number is not None and number in map(_number, wanted))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
