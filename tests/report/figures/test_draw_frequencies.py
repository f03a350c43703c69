"""Bars are the training counts of the rows."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from drawn import Stored, heights, is_labelled, panels, row

from energyalign.experiments.engine.row import Settings
from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.figures import FIGURES
from energyalign.report.figures.frequencies import spread_steps
from energyalign.report.trainings import Training


def test_a_panel_for_each_cell(long_tail: Stored) -> None:
    run = long_tail.runs[0]
    counts = row(run.path, "raw")["counts"]
    other = [replace(each, counts=tuple(2 * count for count in counts)) for each in run.rows]
    another = StoredRun(run.path, Settings({**run.config.values, "name": "digits-lt-2x"}), other)
    figure = FIGURES["frequencies"].draw([*long_tail.runs, another])
    assert is_labelled(figure)
    first, second = panels(figure)  # the first panel is for all trainings of a cell
    assert heights(first) == sorted(counts, reverse=True)
    assert heights(second) == [2 * count for count in sorted(counts, reverse=True)]
    assert second.get_title().startswith("digits-lt-2x\n")
    # Not their ratio, which rounding makes larger than the imbalance of the cell.
    assert f"{sum(counts):,} images, {max(counts)} to {min(counts)} per class" in first.get_title()


def test_four_steps_of_five_with_old_and_new_classes(incremental: Stored) -> None:
    (run,) = incremental.below("ea")
    figure = FIGURES["frequencies"].draw([run])
    assert is_labelled(figure)
    assert [axes.get_title().splitlines()[-1] for axes in panels(figure)] == ["step 1", "step 2", "step 3", "step 5"]
    for axes, step in zip(panels(figure), (1, 2, 3, 5), strict=True):
        of_step = row(run.path, "raw", step)
        assert heights(axes) == of_step["counts"]
        looks = [bar.get_hatch() for bar in axes.patches]
        n_old = of_step["n_old"]
        assert looks == [None] * n_old + [looks[-1]] * (len(looks) - n_old)
        assert looks[-1]
        np.testing.assert_allclose([bar.get_x() + bar.get_width() / 2 for bar in axes.patches], range(len(looks)))


@pytest.mark.parametrize(
    ("n_steps", "shown"), [(20, [1, 7, 13, 20]), (10, [1, 4, 7, 10]), (5, [1, 2, 3, 5]), (2, [1, 2]), (1, [1])]
)
def test_the_steps_of_the_papers_figures(n_steps: int, shown: list[int]) -> None:
    run = SimpleNamespace(rows=[SimpleNamespace(step=step) for step in range(1, n_steps + 1)])
    assert spread_steps(cast(Training, SimpleNamespace(runs=[run]))) == shown
