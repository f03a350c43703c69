"""Result rows without a measurement: set only the fields that matter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from energyalign.experiments.engine.row import Row, Settings


def made_row(config: Mapping[str, Any], *, corrector: str = "raw", overall: float = 0.5, **fields: Any) -> Row:
    """Return a row of a run with this config; other fields have minimal values."""
    settings = Settings(config)
    balanced = fields.pop("balanced", overall)
    values: dict[str, Any] = {
        "cell": settings.name, "learner": "ce", "corrector": corrector, "evidence": None, "seed": settings.seed,
        "step": 1, "n_steps": settings.n_steps, "n_old": 0, "n_new": 2, "balanced": balanced, "overall": overall,
        "macro_f1": balanced, "ece": None, "nll": None, "brier": None, "top5": 1.0,
        "many": None, "medium": None, "few": None, "old": None, "new": None, "groups": (balanced,),
        "per_class": (balanced, balanced), "counts": (2, 1), "test_counts": (5, 5), "shifts": None,
        "standard_errors": None,
        "energies_before": None, "energies_after": None, "effective_samples": None, "estimator": None,
        "clusters": None, "n_clusters": None, "concerns": (), "details": {}, "memory": None, "fed_back": None,
        "order": None, "manifest": "", "network_sha256": "", "config": settings, "versions": {},
    }  # fmt: skip
    return Row(**(values | fields))
