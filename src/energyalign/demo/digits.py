"""scikit-learn's handwritten digits, cut to a long tail, with balanced held-out images."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

N_CLASSES = 10
HELD_OUT_PER_CLASS = 50
LARGEST = 120
IMBALANCE = 60
_HELD_OUT_SEED = 2021  # the same images are held out whatever the seed


@dataclass(frozen=True, eq=False)
class LongTail:
    """Training images with counts falling from 120 to 2, and 50 held-out images of every class."""

    train_images: NDArray[np.float64]
    train_labels: NDArray[np.int64]
    test_images: NDArray[np.float64]
    test_labels: NDArray[np.int64]
    counts: NDArray[np.int64]
    manifest: dict[str, Any]


def long_tail_counts() -> NDArray[np.int64]:
    """The exponential profile of the long-tail literature: n_k = int(n_max / imbalance^(k / (C - 1)))."""
    return np.array([int(LARGEST * IMBALANCE ** (-k / (N_CLASSES - 1))) for k in range(N_CLASSES)])


def load_long_tail(seed: int) -> LongTail:
    """The cut of this seed. One seed always gives the same images; its manifest names them."""
    digits = load_digits()
    images, labels = digits.data / 16.0, digits.target.astype(np.int64)
    held_out_order, drawn = np.random.default_rng(_HELD_OUT_SEED), np.random.default_rng(seed)
    counts = long_tail_counts()
    train, test = [], []
    for k, count in enumerate(counts):
        shuffled = held_out_order.permutation(np.flatnonzero(labels == k))
        test.append(shuffled[:HELD_OUT_PER_CLASS])
        train.append(drawn.permutation(shuffled[HELD_OUT_PER_CLASS:])[:count])
    chosen, held_out = np.concatenate(train), np.concatenate(test)
    return LongTail(
        images[chosen],
        labels[chosen],
        images[held_out],
        labels[held_out],
        counts,
        _manifest(seed, chosen, held_out),
    )


def _manifest(seed: int, train: NDArray[np.int64], test: NDArray[np.int64]) -> dict[str, Any]:
    indices = {"train": train.tolist(), "test": test.tolist()}
    digest = hashlib.sha256(json.dumps(indices, sort_keys=True).encode()).hexdigest()
    return {"dataset": "sklearn digits", "seed": seed, "sha256": digest, **indices}
