"""The class-incremental part of the demo: digits that come two at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from energyalign.demo.part import ALIGNED, CAVEAT, EVIDENCE, DemoSection, Results, Run, all_rows, command_for, seeds_of
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
    """Application I of the paper, with all seeds: one training each, for the teachers are corrected as in the paper."""

    correctors: Sequence[str] = STANDARD_IN_STEPS

    def __init__(self, seeds: Sequence[int]) -> None:
        self.seeds = seeds
        self.stream = load_stream(self._config(seeds[0]))

    @property
    def introduction(self) -> str:
        """What is going to be trained, on what."""
        return (
            f"Handwritten digits in {self.stream.n_steps} steps of {self.stream.sizes[0]} classes, with a memory of "
            f"{PRESET.memory_total} images of old ones (manifest {self.stream.manifest(PRESET.dataset).short_hash}). "
            f"A small CNN, {PRESET.recipe.epochs} epochs a step, {len(self.seeds)} seeds."
        )

    def runs(self, out: Path) -> list[Run]:
        """A training for each seed."""
        return [
            Run(
                f"incremental, seed {seed}, after step {self.stream.n_steps}", out / "incremental" / f"seed-{seed}",
                IncrementalExperiment(self._config(seed), stream=self.stream, command=command_for(self.seeds)),
            )
            for seed in self.seeds
        ]  # fmt: skip

    def section(self, results: Results) -> DemoSection:
        """Accuracy by step, and what it comes to."""
        rows = all_rows(results)
        said = [self._measured(), f"{self._lines()} {ranking(accuracies(rows))}"]
        return DemoSection("Class-incremental: classes come in steps", tables_of(rows), said)

    @staticmethod
    def _config(seed: int) -> IncrementalConfig:
        return config_of(find_method(ALIGNED), PRESET, seed=seed)

    def _measured(self) -> str:
        n_test = len(self.stream.test) // len(self.stream.order)
        return (
            f"Accuracy on balanced test images, {n_test} of every class seen, mean ± standard deviation over "
            f"{seeds_of(self.seeds)}, each another initialisation, order of images, augmentation and choice of "
            "exemplars. Average: over the steps from the second on, as in the paper; old, new and forgetting (what is "
            f"lost of the best accuracy on former classes): after the last step. {CAVEAT}"
        )

    @staticmethod
    def _lines() -> str:
        return (
            "All lines share one training for each seed: distillation from a teacher that is aligned as in the paper. "
            "Raw is the same network without the correction of its own step; ea and ea-marginal learn one shift of all "
            f"new classes from the training images of the step, {EVIDENCE.per_class} draws of each class; "
            "logit-adjustment has a "
            "shift of each class from the training counts alone."
        )


def accuracies(rows: Sequence[Row]) -> dict[str, NDArray[np.float64]]:
    """In per cent, by corrector: (seeds, steps)."""
    return {
        name: np.array([[100.0 * row.balanced for row in curve.rows] for curve in curves])
        for name, curves in curves_of(rows).items()
    }


def ranking(curves: Mapping[str, NDArray[np.float64]]) -> str:
    """Who is ahead, whoever it is, on average over the steps from the second on."""
    averages = {name: float(np.mean(values[:, 1:])) for name, values in curves.items()}
    ranked = sorted(averages, key=lambda name: -averages[name])
    told = ", ".join(f"{name} {averages[name]:.1f}" for name in ranked)
    return f"By average, best first: {told}."
