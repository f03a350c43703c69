"""The long-tailed part of the demo: digits cut to a long tail, two heads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from energyalign.core.free_energy import FreeEnergy
from energyalign.core.metrics import shot_groups
from energyalign.demo.part import ALIGNED, AS_TRAINED, CAVEAT, EVIDENCE, Results, Run, all_rows, rows_under, seeds_of
from energyalign.experiment.cells import mean_and_deviation
from energyalign.experiment.rows import Row
from energyalign.longtail.config import LongTailConfig
from energyalign.longtail.correctors import STANDARD
from energyalign.longtail.data import load_data
from energyalign.longtail.experiment import LongTailExperiment
from energyalign.longtail.presets import PRESETS
from energyalign.longtail.table import COLUMNS
from energyalign.report.page import Figure, Section, Table
from energyalign.train.tensor_file import load_arrays

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
        """What is going to be trained, on what."""
        counts = ", ".join(map(str, self.data.counts))
        return (
            f"Handwritten digits cut to a long tail, training images per class: {counts} (manifest "
            f"{self.data.manifest.short_hash}). A small CNN, {PRESET.recipe.epochs} epochs, {len(HEADS)} heads x "
            f"{len(self.seeds)} seeds."
        )

    def runs(self, out: Path) -> list[Run]:
        """A training for each head and seed."""
        return [
            Run(
                f"{head} head, seed {seed}", out / "long-tail" / head / f"seed-{seed}",
                LongTailExperiment(self._config(head, seed), data=self.data),
            )
            for head in HEADS
            for seed in self.seeds
        ]  # fmt: skip

    def draw(self, out: Path, results: Results) -> list[Figure]:
        """Counts and free energies behind the first head."""
        from energyalign.report.energies_figure import draw_energies

        of_head = {folder: rows for folder, rows in results.items() if rows[0]["config"]["head"] == HEADS[0]}
        path = out / "energies.png"
        draw_energies(
            path,
            counts=self.data.counts,
            before=energies(rows_under(of_head, AS_TRAINED)),
            after=energies(rows_under(of_head, ALIGNED)),
            title="Free energies follow the training counts; aligning brings them together",
        )
        caption = (
            "Training images per class (bars) and negative free energy per class on the balanced test images (points; "
            "error bars are one standard deviation over seeds; each seed centred on its mean), for the raw network "
            "with a cosine head and after energy aligning as in the paper, whose shifts come from the training images."
        )
        return [Figure(path, caption)]

    def section(self, results: Results, figures: Sequence[Figure]) -> Section:
        """A line of the table for each head and corrector."""
        table = self._table(all_rows(results))
        return Section("Long tail: few images of most classes", [table], [self._measured()], figures)

    @staticmethod
    def _config(head: str, seed: int) -> LongTailConfig:
        return LongTailConfig.from_preset(replace(PRESET, head=head), seed=seed)

    def _table(self, rows: Sequence[Row]) -> Table:
        groups: dict[tuple[str, str], list[Row]] = {}
        for row in rows:
            groups.setdefault((row["config"]["head"], row["corrector"]), []).append(row)
        lines = [
            [*names, *(mean_and_deviation([row[c] for row in same]) for c in COLUMNS)] for names, same in groups.items()
        ]
        sizes = self._group_sizes()
        return Table(["head", "accuracy, %", "overall", *(f"{c} ({sizes[c]})" for c in COLUMNS[1:])], lines)

    def _measured(self) -> str:
        sizes = self._group_sizes()
        return (
            f"Accuracy on {len(self.data.test)} balanced test images, mean ± standard deviation over "
            f"{seeds_of(self.seeds)}; the training images are the same {sum(self.data.counts)}, each seed is another "
            f"initialisation, order and augmentation. Classes with more than 100 training images: {sizes['many']} "
            f"(many); 20 to 100: {sizes['medium']} (medium); fewer: {sizes['few']} (few). The shifts were learnt from "
            f"the training images alone, {EVIDENCE.per_class} draws of each class. {CAVEAT}"
        )

    def _group_sizes(self) -> dict[str, int]:
        counts = np.array(self.data.counts)
        return {group: int(members.sum()) for group, members in shot_groups(counts, len(counts)).items()}


def energies(rows: Sequence[tuple[Path, Row]]) -> NDArray[np.float64]:
    """Negative free energies of the test images under these rows, (runs, classes), each run centred on its mean."""
    values = []
    for folder, row in rows:
        logits = load_arrays(folder / "test_logits.safetensors")["logits"].astype(np.float64)
        values.append(FreeEnergy().update(logits + np.array(row["shifts"])).values)
    stacked = np.array(values)
    return np.asarray(stacked - stacked.mean(axis=1, keepdims=True))
