"""Energy aligning: remove the class-imbalance bias of a classifier by adding one number per class to its logits.

Names are imported on first use, which keeps ``import energyalign`` fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from energyalign.core.clusters import Clusters
    from energyalign.core.errors import EnergyAlignError, UntrustedEstimateWarning
    from energyalign.core.evidence import Evidence
    from energyalign.core.fitting import fit_shifts
    from energyalign.core.free_energy import FreeEnergy
    from energyalign.core.metrics import ClassScores, confusion_matrix
    from energyalign.core.multilabel import MultilabelEvidence, MultilabelShifts, fit_multilabel
    from energyalign.core.real_probabilities import real_probabilities
    from energyalign.core.shifts import Shifts
    from energyalign.core.target_prior import estimate_target_prior
    from energyalign.experiments.engine.stored import load_rows
    from energyalign.sklearn.aligner import EnergyAligner
    from energyalign.sklearn.classifier import EnergyAlignedClassifier

_HOMES = {
    "ClassScores": "core.metrics",
    "Clusters": "core.clusters",
    "EnergyAlignError": "core.errors",
    "EnergyAlignedClassifier": "sklearn.classifier",
    "EnergyAligner": "sklearn.aligner",
    "Evidence": "core.evidence",
    "FreeEnergy": "core.free_energy",
    "MultilabelEvidence": "core.multilabel",
    "MultilabelShifts": "core.multilabel",
    "Shifts": "core.shifts",
    "UntrustedEstimateWarning": "core.errors",
    "confusion_matrix": "core.metrics",
    "estimate_target_prior": "core.target_prior",
    "fit_multilabel": "core.multilabel",
    "fit_shifts": "core.fitting",
    "load_rows": "experiments.engine.stored",
    "real_probabilities": "core.real_probabilities",
}

__all__ = [
    "ClassScores",
    "Clusters",
    "EnergyAlignError",
    "EnergyAlignedClassifier",
    "EnergyAligner",
    "Evidence",
    "FreeEnergy",
    "MultilabelEvidence",
    "MultilabelShifts",
    "Shifts",
    "UntrustedEstimateWarning",
    "__version__",
    "confusion_matrix",
    "estimate_target_prior",
    "fit_multilabel",
    "fit_shifts",
    "load_rows",
    "real_probabilities",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'energyalign' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"energyalign.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
