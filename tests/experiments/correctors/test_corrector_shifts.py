"""Shifts as correctors: their concerns refer to the training."""

from __future__ import annotations

import numpy as np

from energyalign.core.evidence import Evidence
from energyalign.experiments.correctors.shifts import _fit_quietly


def test_a_network_near_chance_has_hardly_learned_and_its_columns_are_in_order() -> None:
    labels = np.repeat(np.arange(4), 50)
    logits = np.random.default_rng(0).normal(size=(200, 4)) + 3 * np.eye(4)[labels]
    shifts = _fit_quietly(Evidence.from_arrays(logits[:, ::-1], labels, kind="training"), "none", "per-class")
    assert not any("columns" in concern for concern in shifts.concerns)
    assert shifts.concerns[0].endswith("%): it has hardly learned. Train longer, or raise --lr.")
