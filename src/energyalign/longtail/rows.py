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
from energyalign.longtail.data import LongTailData

Row = dict[str, Any]


def make_row(config: LongTailConfig, data: LongTailData, shifts: Shifts, test_logits: npt.NDArray[np.float32]) -> Row:
    """Accuracies on the test set, shifts and energies, and where they came from."""
    scores = ClassScores(shifts.n_classes).update(shifts.apply(test_logits), data.test.labels)
    groups = {name: _number(value) for name, value in scores.groups(data.counts).items()}
    energies, aligned = shifts.energies, shifts.aligned_energies
    return {
        "cell": config.name,
        "method": "ce",
        "seed": config.seed,
        "overall": scores.accuracy,
        **groups,
        "per_class": scores.per_class.tolist(),
        "top5": scores.top_k_accuracy,
        "shifts": shifts.values.tolist(),
        "standard_errors": shifts.standard_errors.tolist(),
        "estimator": shifts.estimator,
        "clusters": shifts.clusters.name,
        "n_clusters": shifts.clusters.n_clusters,
        "energies_before": None if energies is None else energies.tolist(),
        "energies_after": None if aligned is None else aligned.tolist(),
        "effective_samples": None if shifts.effective_samples is None else shifts.effective_samples.tolist(),
        "concerns": list(shifts.concerns),
        "counts": data.counts.tolist(),
        "manifest": data.manifest.sha256,
        "config": config.to_json(),
        "versions": versions(),
    }


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
    """JSON has no NaN: a group without classes is missing."""
    return None if np.isnan(value) else value
