"""Result rows: one for each corrector, with all that is needed to draw it and to run it again."""

from __future__ import annotations

from energyalign.core.metrics import ClassScores
from energyalign.experiment.rows import Row, about_shifts, number_or_none, versions
from energyalign.longtail.config import LongTailConfig
from energyalign.longtail.correctors import Corrected
from energyalign.longtail.data import LongTailData


def make_row(config: LongTailConfig, data: LongTailData, corrected: Corrected) -> Row:
    """Accuracies on the test set, shifts and energies, and where they came from."""
    scores = ClassScores(data.test.n_classes).update(corrected.logits, data.test.labels)
    groups = {name: number_or_none(value) for name, value in scores.groups(data.counts).items()}
    return {
        "cell": config.name,
        "learner": config.learner.name,
        "seed": config.seed,
        "overall": scores.accuracy,
        **groups,
        "per_class": [number_or_none(value) for value in scores.per_class.tolist()],
        "top5": scores.top_k_accuracy,
        **about_shifts(corrected.shifts),
        "details": dict(corrected.details),
        "counts": data.counts.tolist(),
        "manifest": data.manifest.sha256,
        "config": config.to_json(),
        "versions": versions(),
    }
