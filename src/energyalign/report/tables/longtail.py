"""Lines of long-tailed rows, and the long-tailed tables of the paper."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from energyalign.experiments.correctors import CORRECTORS, find_corrector
from energyalign.experiments.engine.row import HEADLINE, Row
from energyalign.experiments.longtail.config import LongTailConfig
from energyalign.experiments.longtail.learners import LEARNERS
from energyalign.experiments.longtail.methods import METHODS, head_of, name_of
from energyalign.experiments.longtail.paper import PAPER, PaperNumbers
from energyalign.experiments.longtail.presets import PRESETS
from energyalign.report.tables.beside import Application, PaperLayout, Slot
from energyalign.report.tables.model import Cell, Column
from energyalign.report.tables.order import evidence_suffix, line_key, training_key
from energyalign.report.tables.settings import check_one_setting, differences_from_paper

COLUMNS = (HEADLINE, "many", "medium", "few")
"""Fields of rows in the order of `PaperNumbers`; the paper's test sets are balanced."""
_GROUPS = {"Many": "many", "Medium": "medium", "Few": "few", "Overall": HEADLINE}


def method_of(row: Row) -> str:
    """Return the paper's name of a row's method."""
    if row.config.held_out and not _needs_held_out(row):
        return f"{training_of(row)} + {row.corrector}"
    return name_of(row.learner, row.config.head, row.corrector)


def training_of(row: Row) -> str:
    """Describe the training of a row, without its corrector: the learner, with its head if that is not the default."""
    words = ["" if row.config.head == head_of(row.learner) else row.config.head]
    words += [f"held out: {row.config.held_out:g}"] if row.config.held_out else []
    variant = ", ".join(filter(None, words))
    return f"{row.learner} ({variant})" if variant else row.learner


def trainings_of(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Group rows by training."""
    trainings: dict[str, list[Row]] = {}
    for row in sorted(rows, key=training_key(rows, training_of, LEARNERS)):
        trainings.setdefault(training_of(row), []).append(row)
    return trainings


def lines_of(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Group rows into lines of a table, by name, with one row for each cell and seed."""
    one_training = len(set(map(training_of, rows))) == 1
    evidence, place = evidence_suffix(rows), training_key(rows, training_of, LEARNERS)
    groups: dict[str, dict[tuple[str, int], Row]] = {}
    for row in sorted(rows, key=lambda row: (place(row), line_key(row))):
        label = (row.corrector if one_training else method_of(row)) + evidence(row)
        known = groups.setdefault(label, {})
        check_one_setting([*(other for (cell, _), other in known.items() if cell == row.cell), row], label)
        known.setdefault((row.cell, row.seed), row)
    return {label: list(by_seed.values()) for label, by_seed in groups.items()}


def setting_in_paper(row: Row) -> dict[str, Any] | None:
    """Return the config of the row's training in the paper's cell; None for a user's own learner."""
    learner = LEARNERS.get(row.learner)
    if learner is None:
        return None
    preset = PRESETS[row.cell].with_head(row.config.head)
    held_out = row.config.held_out if _needs_held_out(row) else 0.0
    return LongTailConfig.from_preset(preset, learner, seed=row.seed, held_out=held_out).to_json()


def as_in_the_paper(row: Row) -> bool:
    """Return whether network, schedule and subset agree with the paper's cell."""
    if row.cell not in PRESETS or method_of(row) not in METHODS:
        return False
    return not differences_from_paper(row.config.values, setting_in_paper(row))


def paper_of(rows: Sequence[Row]) -> PaperNumbers | None:
    """Return the paper's numbers for a line; None if it has none."""
    return PAPER.get(rows[0].cell, {}).get(method_of(rows[0]))


def difference_of(rows: Sequence[Row]) -> float | None:
    """Return our number minus the paper's for ea in the paper's setting; None for other lines."""
    paper = paper_of(rows)
    # The paper quotes its other methods from papers with other networks and subsets.
    if paper is None or method_of(rows[0]) != "ea" or not all(map(as_in_the_paper, rows)):
        return None
    return 100.0 * statistics.mean(row.balanced for row in rows) - paper.overall


def _needs_held_out(row: Row) -> bool:
    known = CORRECTORS.get(row.corrector)  # users' own correctors are not registered
    return known is not None and find_corrector(row.corrector).held_out > 0


def _ours(rows: Sequence[Row], slot: Slot) -> dict[int, float | None]:
    return {row.seed: row.accuracy(slot.measure) for row in rows}


def _paper(method: str, slot: Slot) -> Cell:
    numbers = PAPER[slot.cell].get(method)
    if numbers is None:
        return Cell()
    place = COLUMNS.index(slot.measure)
    means = (numbers.overall, numbers.many, numbers.medium, numbers.few)
    return Cell(means[place], None if numbers.deviations is None else numbers.deviations[place])


def _by_size(titles_of_cells: dict[str, str]) -> tuple[Slot, ...]:
    """Return slots with the cells beside each other in every group of classes."""
    return tuple(
        Slot(Column(title, group), cell, measure)
        for group, measure in _GROUPS.items()
        for title, cell in titles_of_cells.items()
    )


_READ = Application("longtail", method_of, setting_in_paper, _ours, _paper)
INATURALIST = PaperLayout(
    "inaturalist", "Top-1 accuracy (%) on iNaturalist 2018, ResNet-50, after 90 and 200 epochs", 3,
    _by_size({"90": "inaturalist-90", "200": "inaturalist-200"}), tuple(PAPER["inaturalist-90"]), _READ,
)  # fmt: skip
IMAGENET_LT = PaperLayout(
    "imagenet-lt", "Top-1 accuracy (%) on ImageNet-LT with ResNet-50 and ResNeXt-50", 4,
    _by_size({"ResNet": "imagenet-lt-resnet50", "ResNeXt": "imagenet-lt-resnext50"}),
    (
        "focal", "oltr", "decouple-oltr", "ncm", "crt", "tau-norm", "lws", "capsule", "de-confound", "cosine-tde",
        "capsule-tde", "de-confound-tde", "la-loss", "la-loss-ldam", "la-post-hoc", "ea",
    ),
    _READ,
)  # fmt: skip
CIFAR_LT = PaperLayout(
    "cifar-lt", "Top-1 accuracy (%) on CIFAR-100-LT and CIFAR-10-LT, by imbalance", 10,
    tuple(
        Slot(Column(f"{imbalance}", f"CIFAR-{n}-LT"), f"cifar{n}-lt-{imbalance}", HEADLINE)
        for n in (100, 10)
        for imbalance in (100, 50, 10)
    ),
    tuple(PAPER["cifar100-lt-100"]), _READ,
)  # fmt: skip
