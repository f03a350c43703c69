"""Heads and optimizers: trainings that differ in nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from drawn import Stored, heights, is_labelled, line, panels, row

from energyalign.core.errors import EnergyAlignError
from energyalign.report.figures import FIGURES

GROUPS = ("many", "medium", "few", "balanced")


@pytest.mark.parametrize(
    ("figure_name", "other", "titles"),
    [
        ("heads", "b-linear", ["cosine head", "linear head"]),
        ("optimizers", "c-adam", ["SGD with momentum", "Adam"]),
    ],
)
def test_bars_of_a_long_tail(long_tail: Stored, figure_name: str, other: str, titles: list[str]) -> None:
    figure = FIGURES[figure_name].draw(long_tail.runs)
    assert is_labelled(figure)
    assert [axes.get_title() for axes in panels(figure)] == titles
    for axes, training in zip(panels(figure), ("a-ce", other), strict=True):
        values = [
            np.mean([100 * row(run.path, name)[group] for run in long_tail.below(training)])
            for name in ("raw", "ea")
            for group in GROUPS
        ]
        np.testing.assert_allclose(heights(axes), values)
    note = figure.legends[0].get_title().get_text()
    assert note.startswith("Not shown (no other training differs only in the ")


def test_curves_of_incremental_runs(incremental: Stored) -> None:
    figure = FIGURES["heads"].draw(incremental.runs)
    assert is_labelled(figure)
    assert [axes.get_title() for axes in panels(figure)] == ["cosine head", "linear head"]
    for axes, run in zip(panels(figure), incremental.runs, strict=True):
        for corrector in ("raw", "ea"):
            expected = [100 * row(run.path, corrector, step)["balanced"] for step in range(1, 6)]
            np.testing.assert_allclose(line(axes, corrector)[1], expected)


@pytest.mark.parametrize(
    ("figure_name", "message"),
    [
        ("heads", "differ only in the head: energyalign longtail DATASET --head cosine, and again with --head linear"),
        ("optimizers", "differ only in the optimizer: energyalign longtail DATASET --optimizer sgd, and again with "),
    ],
)
def test_one_training_alone(long_tail: Stored, figure_name: str, message: str) -> None:
    with pytest.raises(EnergyAlignError, match=message):
        FIGURES[figure_name].draw(long_tail.below("a-ce"))
