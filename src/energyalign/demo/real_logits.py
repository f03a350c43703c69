"""The first part of the demo: logits of a real network, shipped with the package; nothing is trained."""

from __future__ import annotations

import warnings

from energyalign.core.errors import UntrustedEstimateWarning
from energyalign.core.evidence import Evidence
from energyalign.core.fitting import fit_shifts
from energyalign.core.metrics import ClassScores
from energyalign.datasets import load_cifar100_lt
from energyalign.demo.part import DemoSection
from energyalign.experiments.engine.row import HEADLINE
from energyalign.report.tables.best import with_best
from energyalign.report.tables.model import Cell, Column, Line, PaperTable

TITLE = "Real logits: CIFAR-100-LT, ResNet-32, 200 epochs"
CORRECTIONS = {
    "raw": ("none", "per-class"),
    "logit-adjustment": ("prior", "per-class"),
    "ea": ("lse", "jenks"),
    "ea-auto": ("auto", "auto"),
}
"""Estimator and clusters of each line; `ea` is the paper's."""


def real_logits() -> DemoSection:
    """Return the table with a line for each correction of the network."""
    data = load_cifar100_lt()
    evidence = Evidence.from_arrays(data.evidence, data.evidence_labels, counts=data.counts, kind="training")
    lines = []
    for name, (estimator, clusters) in CORRECTIONS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UntrustedEstimateWarning)  # the demo shows warnings of its own trainings
            shifts = fit_shifts(evidence, estimator=estimator, clusters=clusters)
        scores = ClassScores(len(data.counts)).update(shifts.apply(data.test), data.test_labels)
        shares = {HEADLINE: scores.balanced_accuracy} | scores.groups(data.counts)
        lines.append(Line(name, "", tuple(Cell(100 * share) for share in shares.values())))
    columns = tuple(map(Column, shares))
    table = PaperTable("real-logits", "Top-1 accuracy (%) on the 10,000 test images", columns, tuple(lines))
    return DemoSection(TITLE, [with_best(table)], [_ABOUT])


_ABOUT = (
    "One network, one seed: cross-entropy, cosine head, imbalance 100, fully trained. The standard error of a balanced "
    "accuracy is about 0.4. The shifts are estimated from 50 training images per class, without augmentation. The "
    "paper reports 45.3 for ea."
)
