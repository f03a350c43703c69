"""The long-tailed part of the demo: digits cut to a long tail, two heads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from energyalign.core.metrics import shot_groups
from energyalign.demo.part import CAVEAT, EVIDENCE, DemoSection, Results, Run, all_rows, command_for, describe_seeds
from energyalign.experiments.correctors import STANDARD
from energyalign.experiments.longtail.config import LongTailConfig
from energyalign.experiments.longtail.experiment import LongTailExperiment, load_data
from energyalign.experiments.longtail.presets import PRESETS
from energyalign.report.tables.own import tables_of

PRESET = PRESETS["digits-lt-50"]
HEADS = ("cosine", "linear")


class LongTail:
    """Application II of the paper, with all seeds and both heads."""

    correctors: Sequence[str] = STANDARD

    def __init__(self, seeds: Sequence[int]) -> None:
        self.seeds = seeds
        self.data = load_data(self._config(HEADS[0], seeds[0]))

    @property
    def introduction(self) -> str:
        """Data and network of the runs."""
        counts = ", ".join(map(str, self.data.counts))
        return (
            f"Handwritten digits cut to a long tail, training images per class: {counts} (manifest "
            f"{self.data.manifest.short_hash}). A small CNN, {PRESET.recipe.epochs} epochs, {len(HEADS)} heads x "
            f"{len(self.seeds)} seeds."
        )

    def runs(self, out: Path) -> list[Run]:
        """Return a run for each head and seed."""
        return [
            Run(
                f"{head} head, seed {seed}", out / "long-tail" / head / f"seed-{seed}",
                LongTailExperiment(self._config(head, seed), data=self.data, command=command_for(self.seeds)),
            )
            for head in HEADS
            for seed in self.seeds
        ]  # fmt: skip

    def section(self, results: Results) -> DemoSection:
        """Return the table with a line for each head and corrector."""
        return DemoSection("Long tail: few images of most classes", tables_of(all_rows(results)), [self._about_table()])

    @staticmethod
    def _config(head: str, seed: int) -> LongTailConfig:
        return LongTailConfig.from_preset(PRESET.with_head(head), seed=seed)

    def _about_table(self) -> str:
        counts = np.array(self.data.counts)
        sizes = {group: int(members.sum()) for group, members in shot_groups(counts, len(counts)).items()}
        return (
            f"Balanced accuracy on {len(self.data.test)} test images, mean ± standard deviation over "
            f"{describe_seeds(self.seeds)}. A seed sets initialisation, order of images and augmentation; all seeds "
            f"train on the same {sum(self.data.counts)} images. Classes with more than 100 training images: "
            f"{sizes['many']} (many); 20 to 100: {sizes['medium']} (medium); fewer: {sizes['few']} (few). Shifts are "
            f"estimated from {EVIDENCE.per_class} training images per class. {CAVEAT}"
        )
