"""Result rows: one for each corrector, with all that is needed to draw it and to run it again."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
import numpy.typing as npt

import energyalign
from energyalign.core.metrics import ClassScores
from energyalign.core.shifts import Shifts
from energyalign.longtail.config import LongTailConfig
from energyalign.longtail.correctors import Corrected
from energyalign.longtail.data import LongTailData

Row = dict[str, Any]


def make_row(config: LongTailConfig, data: LongTailData, corrected: Corrected) -> Row:
    """Accuracies on the test set, shifts and energies, and where they came from."""
    scores = ClassScores(data.test.n_classes).update(corrected.logits, data.test.labels)
    groups = {name: _number(value) for name, value in scores.groups(data.counts).items()}
    return {
        "cell": config.name,
        "learner": config.learner.name,
        "seed": config.seed,
        "overall": scores.accuracy,
        **groups,
        "per_class": [_number(value) for value in scores.per_class.tolist()],
        "top5": scores.top_k_accuracy,
        **_about_shifts(corrected.shifts),
        "details": dict(corrected.details),
        "counts": data.counts.tolist(),
        "manifest": data.manifest.sha256,
        "config": config.to_json(),
        "versions": versions(),
    }


def _about_shifts(shifts: Shifts | None) -> Row:
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


def _number(value: float) -> float | None:
    """JSON has no NaN: a group without classes, or a class without test images, is missing."""
    return None if np.isnan(value) else value
