"""Rows of long-tailed runs as lines of a table: what each is called, and where the paper has it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.row import Row
from energyalign.experiments.longtail.config import LongTailConfig
from energyalign.experiments.longtail.learners import LEARNERS
from energyalign.experiments.longtail.methods import METHODS, head_of, name_of
from energyalign.experiments.longtail.paper import PAPER, PaperNumbers
from energyalign.experiments.longtail.presets import PRESETS

COLUMNS = ("overall", "many", "medium", "few")


def lines_of(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each line, one for each seed, by what the line is called; in the order in which they came."""
    one_training = len({(row.learner, row.config.head) for row in rows}) == 1
    one_plan = len({row.evidence for row in rows if row.evidence}) <= 1
    groups: dict[str, dict[int, Row]] = {}
    for row in rows:
        label = row.corrector if one_training else method_of(row)
        if row.evidence and not one_plan:
            label += f", {row.evidence}"
        _refuse_other_settings(label, row, groups.get(label))
        groups.setdefault(label, {}).setdefault(row.seed, row)
    return {label: list(by_seed.values()) for label, by_seed in groups.items()}


def paper_of(rows: Sequence[Row]) -> PaperNumbers | None:
    """The paper's numbers for the rows of a line, if it has any."""
    return PAPER.get(rows[0].cell, {}).get(method_of(rows[0]))


def difference_of(rows: Sequence[Row]) -> float | None:
    """Ours minus the paper's, for the rows of a line of its own method and in its own setting; None for others."""
    paper = paper_of(rows)
    # The paper quotes its other rows from papers with other networks and cuts.
    if paper is None or method_of(rows[0]) != "ea" or not all(map(as_in_the_paper, rows)):
        return None
    return 100.0 * statistics.mean(row.overall for row in rows) - paper.overall


def method_of(row: Row) -> str:
    """The paper's name of the row."""
    return name_of(row.learner, row.config.head, row.corrector)


def training_of(row: Row) -> str:
    """What was trained, whatever is behind it: the learner, with its head if that is not its own."""
    head = row.config.head
    return row.learner if head == head_of(row.learner) else f"{row.learner} ({head})"


def as_in_the_paper(row: Row) -> bool:
    """Whether network, schedule and cut are those of the paper's cell."""
    preset, method = PRESETS.get(row.cell), METHODS.get(method_of(row))
    if preset is None or method is None:
        return False
    expected = LongTailConfig.from_preset(preset.with_head(method.head), LEARNERS[method.learner], seed=row.seed)
    return expected.to_json() == row.config.values


def _refuse_other_settings(label: str, row: Row, known: Mapping[int, Row] | None) -> None:
    """Numbers of other epochs or networks must neither be averaged nor hidden."""
    if known and next(iter(known.values())).config.but_seed != row.config.but_seed:
        raise EnergyAlignError(f"the rows of {label} are of different settings: make a table of each.")
