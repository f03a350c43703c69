"""Rows with real settings and synthetic accuracies, for tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from made_row import made_row

from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.engine.row import Row
from energyalign.experiments.incremental.config import config_of
from energyalign.experiments.incremental.methods import METHODS as INCREMENTAL
from energyalign.experiments.incremental.presets import PRESETS as INCREMENTAL_PRESETS
from energyalign.experiments.longtail.config import LongTailConfig
from energyalign.experiments.longtail.learners import LEARNERS
from energyalign.experiments.longtail.methods import METHODS
from energyalign.experiments.longtail.presets import PRESETS

DEFAULT_PLAN = EvidencePlan()


def long_tail_row(
    method: str, cell: str, overall: float, *, seed: int = 0, epochs: int | None = None, **more: Any
) -> Row:
    """Return a row of a method in a cell of the paper, with the paper's settings unless `epochs` is given."""
    of = METHODS[method]
    preset = PRESETS[cell]
    preset = replace(preset, head=of.head or preset.head, recipe=preset.recipe.lasting(epochs or preset.recipe.epochs))
    config = LongTailConfig.from_preset(preset, LEARNERS[of.learner], seed=seed)
    return made_row(
        config.to_json(), corrector=of.corrector, overall=overall, learner=of.learner,
        evidence=DEFAULT_PLAN if of.corrector.startswith("ea") else None, many=overall + 0.2, medium=overall,
        few=overall - 0.3, **more,
    )  # fmt: skip


def step_rows(
    method: str, cell: str, accuracies: Sequence[float], *, seed: int = 0, epochs: int | None = None, **more: Any
) -> list[Row]:
    """Return a row of each step of a method in a cell; top-5 is half-way between the accuracy and 1."""
    of = INCREMENTAL[method]
    preset = INCREMENTAL_PRESETS[cell]
    preset = replace(preset, recipe=preset.recipe.lasting(epochs or preset.recipe.epochs))
    config = config_of(of, preset, seed=seed)
    return [
        made_row(
            config.to_json(), corrector=of.corrector, overall=overall,
            **{
                "learner": of.learner, "memory": str(config.memory), "fed_back": config.fed_back, "step": step,
                "evidence": DEFAULT_PLAN if of.corrector.startswith("ea") else None, "top5": (1 + overall) / 2,
                "old": None if step == 1 else overall - 0.1, "new": overall + 0.1, "groups": (overall,) * step, **more,
            },
        )
        for step, overall in enumerate(accuracies, 1)
    ]  # fmt: skip
