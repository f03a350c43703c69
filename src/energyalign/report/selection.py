"""Which rows of runs a table, figure or comparison is made of: ``seed=0``, ``corrector=ea``, ``recipe.epochs=200``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.row import Row, natural
from energyalign.experiments.engine.stored import ResultRows, StoredRun
from energyalign.report.tables import incremental, longtail
from energyalign.report.trainings import leaves_of

Where = Mapping[str, tuple[str, ...]]
"""For each key the values that a row may have; a row must satisfy all keys."""
KEYS = (
    "cell", "dataset", "method", "learner", "corrector", "evidence", "policy", "per_class", "seed", "step", "memory",
    "fed_back", "estimator", "head", "backbone", "epochs", "optimizer", "lr",
)  # fmt: skip
"""Of every row. A key may also be a setting of config.json, such as ``imbalance`` or ``recipe.batch_size``."""


def parse_where(words: Iterable[str]) -> Where:
    """Conditions as they are given on the command line.

    Parameters
    ----------
    words : iterable of str
        ``KEY=VALUE`` each. Values of one key are alternatives. A value may be a pattern: ``method=la-*``.
    """
    where: dict[str, tuple[str, ...]] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not (key and equals and value):
            raise EnergyAlignError(f"--where must be KEY=VALUE, such as seed=0, got {word!r}. Give run folders first.")
        where[key] = (*where.get(key, ()), value)
    return where


def conditions(**values: Any) -> Where:
    """The same from Python: a value, or a list of alternatives, for each key; ``recipe__lr`` is ``recipe.lr``."""
    where = {}
    for key, value in values.items():
        alternatives = value if isinstance(value, Iterable) and not isinstance(value, str) else [value]
        where[key.replace("__", ".")] = tuple(map(str, alternatives))
    return where


def select_rows(rows: Sequence[Row], where: Where) -> ResultRows:
    """The rows that satisfy all conditions; an error that says what there is if none does."""
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
    """The runs with those of their rows that satisfy all conditions; runs without any are left out."""
    chosen = {id(row) for row in select_rows([row for run in runs for row in run.rows], where)}
    selected = [replace(run, rows=[row for row in run.rows if id(row) in chosen]) for run in runs]
    return [run for run in selected if run.rows]


def select_named(runs: Sequence[StoredRun], names: Iterable[str]) -> list[StoredRun]:
    """The runs with those rows whose corrector or method has one of these names; all rows if there are none.

    Parameters
    ----------
    names : iterable of str
        A name may be a pattern: ``ea-*``. One that fits no row is an error.
    """
    names = list(names)
    if not names:
        return list(runs)
    called = {id(row): {row.corrector, values_of(row)["method"]} for run in runs for row in run.rows}
    known = {name for both in called.values() for name in both}
    for name in names:
        if not any(match_any(each, [name]) for each in known):
            raise EnergyAlignError(f"no row is called {name!r}: choose from {', '.join(sorted(known, key=natural))}.")
    chosen = {row for row, both in called.items() if any(match_any(name, names) for name in both)}
    selected = [replace(run, rows=[row for row in run.rows if id(row) in chosen]) for run in runs]
    return [run for run in selected if run.rows]


def values_of(row: Row) -> dict[str, str]:
    """What conditions can be on, as text."""
    plan, config = row.evidence, row.config
    named = {
        "cell": row.cell,
        "dataset": config.values.get("dataset"),
        "method": incremental.label_of(row) if row.in_steps else longtail.method_of(row),
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
    """Whether a name is one of these, or matches one as a file name matches ``*``; upper and lower case are alike."""
    return any(name == pattern or fnmatchcase(name.lower(), pattern.lower()) for pattern in patterns)


def _matches(value: str, wanted: Iterable[str]) -> bool:
    """Numbers are compared as numbers: 100 is 1e2."""
    number = _number(value)
    return match_any(value, wanted) or (number is not None and number in map(_number, wanted))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
