"""What the rows of the demo say: a table with deviations, and a sentence on what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from energyalign.core.metrics import shot_groups
from energyalign.demo.digits import HELD_OUT_PER_CLASS
from energyalign.demo.experiment import METHODS, N_FOLDS

GROUPS = ("many", "medium", "few")


def table(rows: Sequence[dict[str, Any]], counts: NDArray[np.int64]) -> tuple[list[str], list[list[str]]]:
    """Column heads, and a line per method: mean ± standard deviation over seeds, in percent."""
    sizes = _sizes(counts)
    heads = ["accuracy, %", "overall", *(f"{group} ({sizes[group]})" for group in GROUPS)]
    lines = []
    for method in METHODS:
        of_method = [row for row in rows if row["method"] == method]
        cells = [_mean_and_deviation([row[column] for row in of_method]) for column in ("overall", *GROUPS)]
        lines.append([method, *cells])
    return heads, lines


def measured(seeds: Sequence[int], counts: NDArray[np.int64]) -> str:
    """What the table shows and what it does not."""
    sizes = _sizes(counts)
    return (
        f"Accuracy on {len(counts) * HELD_OUT_PER_CLASS} balanced held-out images, mean ± standard deviation over "
        f"{len(seeds)} seeds ({seeds[0]} to {seeds[-1]}); each seed draws other training images and another "
        f"initialisation. Many: {sizes['many']} class with more than 100 training images; medium: {sizes['medium']} "
        f"with 20 to 100; few: {sizes['few']} with fewer than 20. The shifts were learnt from the training images "
        f"alone (out-of-fold logits, {N_FOLDS} folds). One small network on small images: it shows how the "
        "method works, not how well it does elsewhere."
    )


def energies(rows: Sequence[dict[str, Any]], method: str) -> NDArray[np.float64]:
    """Negative free energies on the held-out images, (seeds, classes), each seed centred on its mean."""
    values = np.array([row["test_energies"] for row in rows if row["method"] == method])
    return np.asarray(values - values.mean(axis=1, keepdims=True))


def _sizes(counts: NDArray[np.int64]) -> dict[str, int]:
    return {group: int(members.sum()) for group, members in shot_groups(counts, len(counts)).items()}


def _mean_and_deviation(values: Sequence[float]) -> str:
    percents = 100.0 * np.asarray(values)
    return f"{percents.mean():.1f} ± {percents.std(ddof=1):.1f}"
