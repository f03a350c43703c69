"""A synthetic long-tailed run directory, with any number of classes of any name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from made_row import made_row

from energyalign.core.metrics import ClassScores
from energyalign.experiments.data.manifest import Manifest
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.engine.stored import StoredRun, find_runs
from energyalign.experiments.longtail.config import LongTailConfig
from energyalign.experiments.longtail.presets import PRESETS
from energyalign.experiments.train.run_directory import RunDirectory
from energyalign.experiments.train.tensor_file import save_arrays


def made_up_run(folder: Path, names: Sequence[str], *, per_class: int | Sequence[int] = 2, seed: int = 0) -> StoredRun:
    """Write random logits, counts that fall from the class a third of the way on, and rows of raw and ea."""
    rng, n_classes = np.random.default_rng(seed), len(names)
    counts = np.roll(np.maximum(500 // np.arange(1, n_classes + 1), 1), n_classes // 3)
    labels = np.repeat(np.arange(n_classes), per_class)
    logits = rng.normal(size=(len(labels), n_classes)) + 2.0 * np.eye(n_classes)[labels] + np.log(counts)
    config = LongTailConfig.from_preset(PRESETS["digits-lt-50"], seed=seed).to_json()
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    Manifest(
        dataset="made-up", sizes={"train": int(counts.sum())}, profile="natural", imbalance=1.0, seed=0,
        class_names=tuple(names), counts=tuple(counts.tolist()), labels_sha256="", images_sha256="", test_sha256="",
        indices=np.arange(int(counts.sum())),
    ).save(folder / "manifest.json")  # fmt: skip
    save_arrays(folder / "test_logits.safetensors", {"logits": logits.astype(np.float32), "labels": labels})
    rows = []
    for corrector, shifts in (("raw", np.zeros(n_classes)), ("ea", -np.log(counts))):
        scores = ClassScores(n_classes).update(logits + shifts, labels)
        is_ea = corrector == "ea"
        rows.append(
            made_row(
                config, corrector=corrector, evidence=EvidencePlan() if is_ea else None, cell="made-up",
                counts=tuple(counts.tolist()), shifts=tuple(shifts.tolist()), standard_errors=(0.1,) * n_classes,
                estimator="lse" if is_ea else "none", n_clusters=n_classes,
                effective_samples=(7.0,) * n_classes if is_ea else None, overall=scores.accuracy,
                balanced=scores.balanced_accuracy, per_class=tuple(scores.per_class.tolist()),
                test_counts=tuple(scores.total.tolist()), many=0.5, medium=0.25,
            )
        )  # fmt: skip
        name = "ea-one-50" if is_ea else "raw"
        predictions = (logits + shifts).argmax(axis=1).astype(np.uint16)
        (folder / "predictions").mkdir(exist_ok=True)
        save_arrays(folder / "predictions" / f"{name}.safetensors", {"predictions": predictions})
    RunDirectory(folder).write_rows([row.to_json() for row in rows])
    return find_runs([folder])[0]
