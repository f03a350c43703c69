"""The class-incremental part of the demo: digits that arrive two at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from energyalign.demo.part import (
    ALIGNED,
    CAVEAT,
    EVIDENCE,
    DemoSection,
    Results,
    Run,
    all_rows,
    command_for,
    describe_seeds,
)
from energyalign.experiments.correctors import STANDARD_IN_STEPS
from energyalign.experiments.engine.row import Row
from energyalign.experiments.incremental.config import IncrementalConfig, config_of
from energyalign.experiments.incremental.experiment import IncrementalExperiment
from energyalign.experiments.incremental.methods import find_method
from energyalign.experiments.incremental.presets import PRESETS
from energyalign.experiments.incremental.stream import load_stream
from energyalign.report.tables.incremental import curves_of
from energyalign.report.tables.own import tables_of

PRESET = PRESETS["digits-il-5"]


class ClassIncremental:
    """Application I of the paper: one training for each seed, with teachers that are aligned as in the paper."""

    correctors: Sequence[str] = STANDARD_IN_STEPS

    def __init__(self, seeds: Sequence[int]) -> None:
        self.seeds = seeds
        self.stream = load_stream(self._config(seeds[0]))

    @property
    def introduction(self) -> str:
        """Data and network of the runs."""
        return (
            f"Handwritten digits in {self.stream.n_steps} steps of {self.stream.sizes[0]} classes, with a memory of "
            f"{PRESET.memory_total} images of old classes (manifest "
            f"{self.stream.manifest(PRESET.dataset).short_hash}). A small CNN, {PRESET.recipe.epochs} epochs per step, "
            f"{len(self.seeds)} seeds."
        )

    def runs(self, out: Path) -> list[Run]:
        """Return a run for each seed."""
        return [
            Run(
                f"incremental, seed {seed}, after step {self.stream.n_steps}", out / "incremental" / f"seed-{seed}",
                IncrementalExperiment(self._config(seed), stream=self.stream, command=command_for(self.seeds)),
            )
            for seed in self.seeds
        ]  # fmt: skip

    def section(self, results: Results) -> DemoSection:
        """Return the tables by step and over all steps."""
        rows = all_rows(results)
        paragraphs = [self._about_numbers(), f"{_ABOUT_LINES} {ranking(accuracies(rows))}"]
        return DemoSection("Class-incremental: classes come in steps", tables_of(rows), paragraphs)

    @staticmethod
    def _config(seed: int) -> IncrementalConfig:
        return config_of(find_method(ALIGNED), PRESET, seed=seed)

    def _about_numbers(self) -> str:
        n_test = len(self.stream.test) // len(self.stream.order)
        return (
            f"Balanced accuracy on {n_test} test images of every class seen, mean ± standard deviation over "
            f"{describe_seeds(self.seeds)}. A seed sets initialisation, order of images, augmentation and exemplars. "
            "Average: over the steps from the second on, as in the paper. Old, new and forgetting (loss from the best "
            f"accuracy on former classes): after the last step. {CAVEAT}"
        )


_ABOUT_LINES = (
    "All correctors share one training for each seed: distillation from a teacher that is aligned as in the paper. Raw "
    "is this network without a correction in its own step; ea and ea-marginal estimate one shift for all new classes "
    f"from {EVIDENCE.per_class} training images per class of the step; logit-adjustment computes a shift for each "
    "class from the training counts."
)


def accuracies(rows: Sequence[Row]) -> dict[str, NDArray[np.float64]]:
    """Return balanced accuracies in percent, of shape (seeds, steps), by corrector."""
    return {
        name: np.array([[100.0 * row.balanced for row in curve.rows] for curve in curves])
        for name, curves in curves_of(rows).items()
    }


def ranking(curves: Mapping[str, NDArray[np.float64]]) -> str:
    """Rank correctors by their average over the steps from the second on."""
    averages = {name: float(np.mean(values[:, 1:])) for name, values in curves.items()}
    ranked = sorted(averages, key=lambda name: -averages[name])
    return f"By average, best first: {', '.join(f'{name} {averages[name]:.1f}' for name in ranked)}."
