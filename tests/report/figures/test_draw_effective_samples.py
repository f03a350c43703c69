"""Effective samples of the rows by training counts, on log axes."""

from __future__ import annotations

import numpy as np
import pytest
from drawn import Stored, error_bars, is_labelled, line, panels, row

from energyalign.core.errors import EnergyAlignError
from energyalign.report.figures import FIGURES


def test_two_seeds(long_tail: Stored) -> None:
    runs = long_tail.below("a-ce")
    figure = FIGURES["effective-samples"].draw(runs)
    (axes,) = panels(figure)
    assert is_labelled(figure)
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    samples = np.array([row(run.path, "ea")["effective_samples"] for run in runs])
    x, y = line(axes, "a class")
    assert x.tolist() == row(runs[0].path, "raw")["counts"]
    np.testing.assert_allclose(y, samples.mean(axis=0))
    np.testing.assert_allclose(error_bars(axes, "a class"), samples.std(axis=0, ddof=1))
    assert set(line(axes, "all samples of the evidence")[1]) == {50}  # 5 of each of 10 classes
    assert not any("$" in text.get_text() for text in axes.get_yticklabels())


def test_without_evidence(incremental: Stored) -> None:
    (run,) = incremental.below("ea")
    rows = [each for each in run.rows if each.corrector in ("raw", "logit-adjustment")]
    with pytest.raises(EnergyAlignError, match="needs rows of a corrector that reads evidence"):
        FIGURES["effective-samples"].draw([type(run)(run.path, run.config, rows)])
