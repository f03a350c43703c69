"""The long-tailed training set and the balanced test set of a run."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from energyalign.core.arrays import Ints
from energyalign.experiments.data.cut import cut_long_tail
from energyalign.experiments.data.images import ImageSet
from energyalign.experiments.data.manifest import Manifest
from energyalign.experiments.data.sources import open_source
from energyalign.experiments.longtail.config import LongTailConfig


class LongTailData(NamedTuple):
    """What a run trains and tests on, and the record of it.

    Attributes
    ----------
    validation : ImageSet or None
        For correctors that choose a hyper-parameter; None if there are none.
    """

    train: ImageSet
    test: ImageSet
    manifest: Manifest
    validation: ImageSet | None = None

    @property
    def counts(self) -> Ints:
        """Training images per class."""
        return np.asarray(self.manifest.counts)


def load_data(config: LongTailConfig, data_root: str | Path | None = None) -> LongTailData:
    """Read the source and cut it as the config says."""
    source = open_source(config.dataset, data_root)
    train, test = source.load("train"), source.load("test")
    manifest = cut_long_tail(
        train, dataset=config.dataset, profile=config.profile,
        imbalance=1.0 if config.imbalance is None else config.imbalance,
        seed=config.split_seed, test=test,
    )  # fmt: skip
    has_validation = "val" in source.splits and all(path.exists() for path in source.files("val"))
    validation = source.load("val") if has_validation else None
    return LongTailData(manifest.select(train), test, manifest, validation)
