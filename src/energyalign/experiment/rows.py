"""What the result rows of both applications have in common."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import energyalign
from energyalign.core.shifts import Shifts
from energyalign.train.run_directory import RunDirectory

Row = dict[str, Any]


def store_row(run: RunDirectory, row: Row, key: Callable[[Row], Any]) -> None:
    """Put the row in the place of the one that the run may have of its key already; rows are in the order of keys."""
    others = [other for other in run.read_rows() if key(other) != key(row)]
    run.write_rows(sorted([*others, row], key=key))


def settings_of(row: Row) -> str:
    """All that fixes the training of a row but the seed."""
    return json.dumps({**row["config"], "seed": None}, sort_keys=True)


def about_shifts(shifts: Shifts | None) -> Row:
    """All None for a corrector that does more than add a number per class."""
    if shifts is None:
        return dict.fromkeys(
            (
                "shifts", "standard_errors", "estimator", "clusters", "n_clusters", "energies_before", "energies_after",
                "effective_samples",
            )
        ) | {"concerns": []}  # fmt: skip
    return {
        "shifts": shifts.values.tolist(),
        "standard_errors": shifts.standard_errors.tolist(),
        "estimator": shifts.estimator,
        "clusters": shifts.clusters.name,
        "n_clusters": shifts.clusters.n_clusters,
        "energies_before": _listed(shifts.energies),
        "energies_after": _listed(shifts.aligned_energies),
        "effective_samples": _listed(shifts.effective_samples),
        "concerns": list(shifts.concerns),
    }


def _listed(values: npt.NDArray[np.float64] | None) -> list[float] | None:
    return None if values is None else values.tolist()


def versions() -> dict[str, str]:
    """Of everything that numbers may depend on."""
    import torch
    import torchvision

    return {
        "energyalign": energyalign.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__,
        "torchvision": torchvision.__version__,
    }


def number_or_none(value: float) -> float | None:
    """JSON has no NaN: a group without classes, or a class without test images, is missing."""
    return None if np.isnan(value) else value
