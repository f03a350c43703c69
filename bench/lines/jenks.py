"""Natural breaks of training counts."""

from __future__ import annotations

from collections.abc import Iterator

import jenkspy
import numpy as np

from bench.line import Line, at_least
from bench.measure import alternate
from energyalign import Clusters


def lines() -> Iterator[Line]:
    """Compute breaks for every number of clusters that `auto` compares."""
    counts = (1000 * np.exp(-np.linspace(0, 6.2, 8142))).astype(int) + 1
    seconds = alternate(
        {
            "ours": lambda: [Clusters.jenks(counts, m) for m in range(2, 11)],
            "jenkspy": lambda: [jenkspy.jenks_breaks(counts, n_classes=m) for m in range(2, 11)],
        }
    )
    yield Line.of(
        "Jenks", "8,142 counts, M = 2..10", "jenkspy called for each M", at_least(3),
        ours=seconds["ours"], theirs=seconds["jenkspy"],
    )  # fmt: skip
