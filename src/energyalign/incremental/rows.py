"""Result rows: one for each step and corrector, with all that is needed to draw it and to run it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from energyalign.core.metrics import ClassScores, confusion_matrix
from energyalign.data.images import ImageSet
from energyalign.data.manifest import Manifest
from energyalign.experiment.outputs import Floats32
from energyalign.experiment.rows import Row, about_shifts, number_or_none, versions
from energyalign.incremental.after_step import AfterStep
from energyalign.incremental.correctors import Corrected
from energyalign.incremental.orders import order_hash
from energyalign.incremental.stream import ClassStream
from energyalign.train.tensor_file import save_arrays


def make_row(
    after: AfterStep, stream: ClassStream, manifest: Manifest, corrected: Corrected, *, scores: Floats32, test: ImageSet
) -> Row:
    """Accuracies over all classes seen, of old and of new ones, and where they came from."""
    step = after.step
    config = step.config
    counted = ClassScores(step.n_seen).update(scores, test.labels)
    groups = [_pooled(counted, group) for group in step.groups]
    return {
        "cell": config.name,
        "learner": config.learner.name,
        "memory": str(config.memory),
        "fed_back": config.fed_back,
        "seed": config.seed,
        "step": step.number,
        "n_steps": config.n_steps,
        "n_old": step.n_old,
        "n_new": step.n_new,
        "overall": counted.accuracy,
        "top5": counted.top_k_accuracy,
        "old": number_or_none(_pooled(counted, slice(step.n_old))),
        "new": _pooled(counted, slice(step.n_old, step.n_seen)),
        "groups": groups,
        "per_class": counted.per_class.tolist(),
        "counts": step.counts.tolist(),
        **(shifts := about_shifts(corrected.shifts)),
        "concerns": [*shifts["concerns"], *corrected.concerns],
        "details": dict(corrected.details),
        "order": list(stream.order),
        "order_sha256": order_hash(stream.order),
        "manifest": manifest.sha256,
        "network_sha256": after.network_sha256,
        "config": config.to_json(),
        "versions": versions(),
    }


def row_key(row: Row) -> tuple[int, str, str]:
    """Rows of one run differ in these."""
    return row["step"], row["corrector"], json.dumps(row["evidence"], sort_keys=True)


def confusion_file(folder: Path, row: Row) -> Path:
    """Where the confusion matrix of a row is, given the folder of its run."""
    evidence = row["evidence"]
    plan = "" if evidence is None else f"-{evidence['policy']}-{evidence['per_class']}"
    return folder / f"step-{row['step']:02d}" / f"confusion-{row['corrector']}{plan}.safetensors"


def save_confusion(folder: Path, row: Row, scores: Floats32, test: ImageSet) -> None:
    """Counts of (true class, predicted class), classes in their order of arrival."""
    matrix: Any = confusion_matrix(test.labels, scores.argmax(axis=1), test.n_classes)
    save_arrays(confusion_file(folder, row), {"confusion": matrix.astype(np.int32)})


def _pooled(scores: ClassScores, classes: slice) -> float:
    """Share of the test images of these classes that were predicted right, all in one pool; NaN if there are none."""
    total = int(scores.total[classes].sum())
    return float(scores.right[classes].sum() / total) if total else float("nan")
