"""Many files of logits, whose fit takes a while."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def save_shards(folder: Path, n_shards: int, n_classes: int) -> None:
    """Save ``shards/000.npy`` and so on, with 100 samples each, and ``labels.npy``."""
    (folder / "shards").mkdir()
    labels = np.arange(100 * n_shards) % n_classes
    noise = np.random.default_rng(0).normal(size=(len(labels), n_classes))
    logits = (noise + 2 * np.eye(n_classes)[labels] - np.log(1 + np.arange(n_classes))).astype(np.float32)
    for number, rows in enumerate(np.split(logits, n_shards)):
        np.save(folder / f"shards/{number:03}.npy", rows)
    np.save(folder / "labels.npy", labels)
