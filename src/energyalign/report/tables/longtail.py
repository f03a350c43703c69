"""The long-tailed tables of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from energyalign.experiments.engine.row import Row
from energyalign.experiments.longtail.config import LongTailConfig
from energyalign.experiments.longtail.learners import LEARNERS
from energyalign.experiments.longtail.paper import PAPER
from energyalign.experiments.longtail.presets import PRESETS
from energyalign.report.tables.beside import PaperLayout, Slot
from energyalign.report.tables.longtail_lines import method_of
from energyalign.report.tables.model import Cell, Column

# As they stand in `PaperNumbers` and in rows.
_MEASURES = ("overall", "many", "medium", "few")
_GROUPS = {"Many": "many", "Medium": "medium", "Few": "few", "Overall": "overall"}


class LongTail:
    """How its rows are read; see `energyalign.report.tables.beside.Application`."""

    any_runs = "longtail"

    def method_of(self, row: Row) -> str:
        """The name of its line."""
        return method_of(row)

    def setting_in_paper(self, row: Row) -> dict[str, Any] | None:
        """What its config would be in the paper's cell; None for a learner of the user's own."""
        learner = LEARNERS.get(row.learner)
        if learner is None:
            return None
        preset = PRESETS[row.cell].with_head(row.config.head)
        return LongTailConfig.from_preset(preset, learner, seed=row.seed).to_json()

    def ours(self, rows: Sequence[Row], slot: Slot) -> list[float | None]:
        """Of each seed, which counts once."""
        return list({row.seed: row.accuracy(slot.measure) for row in rows}.values())

    def paper(self, method: str, slot: Slot) -> Cell:
        """The printed number."""
        numbers = PAPER[slot.cell].get(method)
        if numbers is None:
            return Cell()
        index = _MEASURES.index(slot.measure)
        deviation = None if numbers.deviations is None else numbers.deviations[index]
        return Cell(getattr(numbers, slot.measure), deviation)


def _by_size(titles_of_cells: dict[str, str]) -> tuple[Slot, ...]:
    """Two cells beside each other in every group of classes."""
    return tuple(
        Slot(Column(title, group), cell, measure)
        for group, measure in _GROUPS.items()
        for title, cell in titles_of_cells.items()
    )


INATURALIST = PaperLayout(
    "inaturalist", "Top-1 accuracy (%) on iNaturalist 2018, ResNet-50, after 90 and 200 epochs", 3,
    _by_size({"90": "inaturalist-90", "200": "inaturalist-200"}), tuple(PAPER["inaturalist-90"]), LongTail(),
)  # fmt: skip
IMAGENET_LT = PaperLayout(
    "imagenet-lt", "Top-1 accuracy (%) on ImageNet-LT with ResNet-50 and ResNeXt-50", 4,
    _by_size({"ResNet": "imagenet-lt-resnet50", "ResNeXt": "imagenet-lt-resnext50"}),
    (
        "focal", "oltr", "decouple-oltr", "ncm", "crt", "tau-norm", "lws", "capsule", "de-confound", "cosine-tde",
        "capsule-tde", "de-confound-tde", "la-loss", "la-loss-ldam", "la-post-hoc", "ea",
    ),
    LongTail(),
)  # fmt: skip
CIFAR_LT = PaperLayout(
    "cifar-lt", "Top-1 accuracy (%) on CIFAR-100-LT and CIFAR-10-LT, by imbalance", 10,
    tuple(
        Slot(Column(f"{imbalance}", f"CIFAR-{n}-LT"), f"cifar{n}-lt-{imbalance}", "overall")
        for n in (100, 10)
        for imbalance in (100, 50, 10)
    ),
    tuple(PAPER["cifar100-lt-100"]), LongTail(),
)  # fmt: skip
