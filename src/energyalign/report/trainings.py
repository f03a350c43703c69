"""Stored runs as trainings: those that differ in nothing but the seed are one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from energyalign.core.arrays import Ints
from energyalign.experiments.engine.row import Row
from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.labels import full_name, labels_of

AS_TRAINED, ALIGNED = "raw", "ea"
"""The correctors that are compared: without and with energy aligning."""


@dataclass(frozen=True)
class Training:
    """The runs of one training, one for each seed, as they are after the last step that all of them have.

    Attributes
    ----------
    label : str
        What tells it from other trainings.
    runs : tuple of StoredRun
    """

    label: str
    runs: tuple[StoredRun, ...]

    @property
    def cell(self) -> str:
        """Data and protocol, for example ``digits-lt-50``."""
        return str(self.runs[0].config.name)

    @property
    def in_steps(self) -> bool:
        """Whether its classes came in steps."""
        return self.runs[0].in_steps

    @property
    def step(self) -> int | None:
        """That last step; None for a long tail."""
        return min(max(row.step for row in run.rows) for run in self.runs) if self.in_steps else None

    @property
    def counts(self) -> Ints:
        """Training images of each class, the same for every seed."""
        return self.runs[0].counts(self.step)

    @property
    def n_old(self) -> int:
        """How many classes were there before that step; 0 for a long tail."""
        return int(self.runs[0].rows_at(self.step)[0].n_old) if self.in_steps else 0

    @property
    def class_names(self) -> tuple[str, ...]:
        """Of the classes that it has seen."""
        return self.runs[0].class_names[: len(self.counts)]

    @property
    def correctors(self) -> list[str]:
        """Those that were measured, in the order of the rows."""
        return list(dict.fromkeys(row.corrector for run in self.runs for row in run.rows_at(self.step)))

    def measured(self, corrector: str) -> list[tuple[StoredRun, Row]]:
        """The runs that were measured under a corrector, each with that row."""
        found = ((run, run.row_of(corrector, self.step)) for run in self.runs)
        return [(run, row) for run, row in found if row is not None]

    def rows_of(self, corrector: str) -> list[Row]:
        """The row of each seed that was measured under a corrector."""
        return [row for _, row in self.measured(corrector)]

    def percentages(self, corrector: str, columns: Sequence[str]) -> NDArray[np.float64]:
        """These columns under a corrector, of shape (runs, columns); NaN where there is no class of such a group."""
        rows = self.rows_of(corrector)
        values = [[_percent(row.accuracy(column)) for column in columns] for row in rows]
        return np.array(values, dtype=np.float64).reshape(len(rows), len(columns))


def by_setting(runs: Sequence[StoredRun]) -> list[tuple[StoredRun, ...]]:
    """The seeds of each training, in the order in which they came; a seed that is given twice counts once."""
    grouped: dict[str, dict[int, StoredRun]] = {}
    for run in runs:
        grouped.setdefault(setting(run), {}).setdefault(run.config.seed, run)
    return [tuple(by_seed.values()) for by_seed in grouped.values()]


def named_in_full(runs: Sequence[StoredRun]) -> list[Training]:
    """Trainings whose label says what they are, and what else differs where that is not enough."""
    groups = by_setting(runs)
    names = [(seeds[0].config.name, full_name(seeds[0])) for seeds in groups]
    trainings = []
    for name, seeds in zip(names, groups, strict=True):
        namesakes = [other for other, also in zip(groups, names, strict=True) if also == name]
        differs = labels_of([other[0] for other in namesakes])[namesakes.index(seeds)] if len(namesakes) > 1 else ""
        trainings.append(Training(", ".join(filter(None, [name[1], differs])), seeds))
    return trainings


def setting(run: StoredRun, *varied: str) -> str:
    """All that fixes a training but the seed and what is varied: keys of the config, or of its recipe."""
    values = run.config.values
    recipe = {key: value for key, value in values["recipe"].items() if key not in varied}
    config = {key: value for key, value in values.items() if key not in ("seed", *varied)}
    return json.dumps({**config, "recipe": recipe}, sort_keys=True)


def _percent(share: float | None) -> float:
    return np.nan if share is None else 100.0 * share
