"""Strengths 0 and 1 agree with the rows of raw and of the corrector; others are computed from stored logits."""

from __future__ import annotations

import numpy as np
import pytest
from drawn import Stored, is_labelled, line, logits, panels, row

from energyalign.core.errors import EnergyAlignError
from energyalign.report.figures import FIGURES


def test_a_long_tail(long_tail: Stored) -> None:
    runs = long_tail.below("a-ce")
    figure = FIGURES["strength"].draw(runs)
    assert is_labelled(figure)
    assert [axes.get_title() for axes in panels(figure)] == ["ea", "ea-marginal", "logit-adjustment"]
    for axes in panels(figure):
        for group in ("balanced", "many", "medium", "few"):
            x, y = line(axes, "all" if group == "balanced" else group)
            np.testing.assert_allclose(x, np.linspace(0, 2, 21))
            for place, corrector in ((0, "raw"), (10, axes.get_title())):
                expected = np.mean([100 * row(run.path, corrector)[group] for run in runs])
                np.testing.assert_allclose(y[place], expected)
        assert {float(each.get_xdata()[0]) for each in axes.lines if len(each.get_xdata()) == 2} == {0.0, 1.0}


def test_half_the_shifts(long_tail: Stored) -> None:
    (run,) = long_tail.below("b-linear")
    (axes,) = panels(FIGURES["strength"].draw([run]))
    values, labels = logits(run.path)
    predicted = (values + 0.5 * np.array(row(run.path, "ea")["shifts"])).argmax(axis=1)
    np.testing.assert_allclose(line(axes, "all")[1][5], 100 * (predicted == labels).mean())


def test_an_incremental_run(incremental: Stored) -> None:
    (run,) = incremental.below("ea")
    figure = FIGURES["strength"].draw([run])
    assert [axes.get_title() for axes in panels(figure)] == ["ea", "ea-marginal", "logit-adjustment"]
    for axes in panels(figure):
        for group in ("balanced", "old", "new"):
            _, y = line(axes, "all" if group == "balanced" else group)
            np.testing.assert_allclose(y[0], 100 * row(run.path, "raw", 5)[group])
            np.testing.assert_allclose(y[10], 100 * row(run.path, axes.get_title(), 5)[group])


def test_without_shifts(long_tail: Stored) -> None:
    (run,) = long_tail.below("b-linear")
    rows = [each for each in run.rows if each.corrector == "raw"]
    with pytest.raises(EnergyAlignError, match="strength needs rows of one of ea, ea-marginal, logit-adjustment: "):
        FIGURES["strength"].draw([type(run)(run.path, run.config, rows)])
