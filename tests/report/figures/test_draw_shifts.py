"""Shifts and minus log priors, both centred, with standard errors."""

from __future__ import annotations

import numpy as np
import pytest
from drawn import Stored, error_bars, is_labelled, line, panels, row

from energyalign.core.errors import EnergyAlignError
from energyalign.report.figures import FIGURES


def test_every_corrector_that_measures_shifts(long_tail: Stored) -> None:
    runs = long_tail.below("a-ce")
    figure = FIGURES["shifts"].draw(runs)
    assert is_labelled(figure)
    titles = [axes.get_title() for axes in panels(figure)]
    assert sorted(titles) == ["ea", "ea-M1", "ea-M2", "ea-M4", "ea-auto", "ea-marginal"]
    counts = np.array(row(runs[0].path, "raw")["counts"])
    expected = -np.log(counts / counts.sum())
    expected -= expected.mean()
    for axes, corrector in zip(panels(figure), titles, strict=True):
        rows = [row(run.path, corrector) for run in runs]
        shifts = np.array([each["shifts"] for each in rows])
        x, y = line(axes, "shift of a class")
        np.testing.assert_allclose(x, expected, atol=1e-9)
        np.testing.assert_allclose(y, (shifts - shifts.mean(axis=1, keepdims=True)).mean(axis=0), atol=1e-9)
        errors = np.array([each["standard_errors"] for each in rows])
        np.testing.assert_allclose(error_bars(axes, "shift of a class"), np.sqrt((errors**2).mean(axis=0)), atol=1e-9)
        x, y = line(axes, "logit adjustment (slope 1)")
        np.testing.assert_allclose(x, y)


def test_shifts_of_a_step(incremental: Stored) -> None:
    (run,) = incremental.below("ea")
    drawn = panels(FIGURES["shifts"].draw([run]))
    assert sorted(axes.get_title() for axes in drawn) == ["ea", "ea-marginal"]  # raw and logit adjustment measure none
    axes = drawn[0]
    shifts = np.array(row(run.path, "ea", 5)["shifts"])
    np.testing.assert_allclose(line(axes, "shift of a class")[1], shifts - shifts.mean(), atol=1e-9)


def test_without_measured_shifts(long_tail: Stored) -> None:
    run = long_tail.below("b-linear")[0]
    rows = [each for each in run.rows if each.corrector in ("raw", "tau-norm")]
    with pytest.raises(EnergyAlignError, match="energyalign longtail DATASET --corrector ea"):
        FIGURES["shifts"].draw([type(run)(run.path, run.config, rows)])
