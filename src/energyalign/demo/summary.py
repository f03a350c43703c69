"""What the rows of the demo say: a table with deviations, and a sentence on what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from energyalign.core.free_energy import FreeEnergy
from energyalign.core.metrics import shot_groups
from energyalign.experiment.cells import mean_and_deviation
from energyalign.experiment.rows import Row
from energyalign.longtail.table import COLUMNS
from energyalign.train.tensor_file import load_arrays


def table(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Column names, and a line for each head and corrector: mean ± standard deviation over seeds, in per cent."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["config"]["head"], row["corrector"]), []).append(row)
    lines = [
        [*names, *(mean_and_deviation([row[c] for row in same]) for c in COLUMNS)] for names, same in groups.items()
    ]
    sizes = _sizes(rows[0])
    return ["head", "accuracy, %", "overall", *(f"{name} ({sizes[name]})" for name in COLUMNS[1:])], lines


def measured(rows: Sequence[Row], *, n_test: int, per_class: int) -> str:
    """What the table shows and what it does not."""
    seeds = sorted({row["seed"] for row in rows})
    sizes = _sizes(rows[0])
    return (
        f"Accuracy on {n_test} balanced test images, mean ± standard deviation over {len(seeds)} seeds ({seeds[0]} to "
        f"{seeds[-1]}); the training images are the same {sum(rows[0]['counts'])}, each seed is another "
        f"initialisation, order and augmentation. Classes with more than 100 training images: {sizes['many']} "
        f"(many); 20 to 100: {sizes['medium']} (medium); fewer: {sizes['few']} (few). The shifts were learnt from the "
        f"training images alone, {per_class} draws of each class. One small network on small "
        "images: it shows how the method works, not how well it does elsewhere."
    )


def energies(folders: Sequence[Path], rows: Sequence[Row]) -> NDArray[np.float64]:
    """Negative free energies of the test images under these rows, (runs, classes), each run centred on its mean."""
    values = []
    for folder, row in zip(folders, rows, strict=True):
        logits = load_arrays(folder / "test_logits.safetensors")["logits"].astype(np.float64)
        values.append(FreeEnergy().update(logits + np.array(row["shifts"])).values)
    stacked = np.array(values)
    return np.asarray(stacked - stacked.mean(axis=1, keepdims=True))


def _sizes(row: Row) -> dict[str, int]:
    counts = np.array(row["counts"])
    return {group: int(members.sum()) for group, members in shot_groups(counts, len(counts)).items()}
