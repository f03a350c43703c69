"""Bars are training counts, points are centred log-sum-exps of the stored logits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn import Stored, heights, is_labelled, logits, panels, row, shifted
from made_up_run import made_up_run
from scipy.special import logsumexp

from energyalign.core.errors import EnergyAlignError
from energyalign.report.figures import FIGURES
from energyalign.report.figures.energies import _limits


def centred(values: Any) -> Any:
    return values - values.mean()


def beside(figure: Any) -> list[Any]:
    """Return the secondary axes, which show the energies."""
    return [axes for axes in figure.axes if axes not in panels(figure)]


def test_two_seeds(long_tail: Stored) -> None:
    runs = long_tail.below("a-ce")
    figure = FIGURES["energies"].draw(runs)
    paths = [run.path for run in runs]
    counts = np.array(row(paths[0], "raw")["counts"])
    order = np.argsort(-counts, kind="stable")
    assert is_labelled(figure)
    assert figure.get_suptitle().endswith("digits-lt-50, ce, cosine head, small-cnn, 2 seeds")
    for axes, energies, corrector in zip(panels(figure), beside(figure), ("raw", "ea"), strict=True):
        assert heights(axes) == counts[order].tolist()
        values = np.array([centred(logsumexp(shifted(path, corrector), axis=0)) for path in paths])[:, order]
        (bars,) = energies.containers
        np.testing.assert_allclose(bars.lines[0].get_ydata(), values.mean(axis=0), rtol=1e-5, atol=1e-5)
        lengths = [high - low for (_, low), (_, high) in bars.lines[2][0].get_segments()]
        np.testing.assert_allclose(lengths, 2 * values.std(axis=0, ddof=1), rtol=1e-4, atol=1e-5)
    assert len({axes.get_ylim() for axes in beside(figure)}) == 1


def test_deviations_are_shown_whole() -> None:
    low, high = _limits(np.array([[0.0, -10.0], [0.0, 10.0]]), np.array([[1.0, 20.0]]))
    assert -17 < low < -10 * 2**0.5  # the standard deviation of -10 and 10, which exceeds both
    assert 20 < high < 23


def test_the_last_step_in_order_of_arrival(incremental: Stored) -> None:
    (run,) = incremental.below("ea")
    figure = FIGURES["energies"].draw([run])
    assert panels(figure)[0].get_xlabel() == "class, in order of arrival"
    assert "after step 5 of 5" in figure.get_suptitle()
    assert heights(panels(figure)[0]) == row(run.path, "raw", 5)["counts"]
    expected = centred(logsumexp(logits(run.path / "step-05")[0], axis=0))
    (drawn,) = beside(figure)[0].containers
    np.testing.assert_allclose(drawn.lines[0].get_ydata(), expected, rtol=1e-5, atol=1e-5)


def test_a_thousand_classes_are_a_thin_line_without_names(tmp_path: Path) -> None:
    run = made_up_run(tmp_path / "run", [f"class {k}" for k in range(1000)])
    figure = FIGURES["energies"].draw([run])
    axes, energies = panels(figure)[0], beside(figure)[0]
    (shape,) = axes.patches
    assert shape.get_data().values.tolist() == sorted(row(run.path, "raw")["counts"], reverse=True)
    assert energies.lines[0].get_linewidth() < 1
    order = np.argsort(-np.array(row(run.path, "raw")["counts"]), kind="stable")
    expected = centred(logsumexp(logits(run.path)[0], axis=0))[order]
    np.testing.assert_allclose(energies.lines[0].get_ydata(), expected, rtol=1e-5, atol=1e-5)
    assert len(axes.get_xticks()) < 10


def test_trainings_without_both_rows_are_named(incremental: Stored) -> None:
    """In a note; an error if no other training remains."""
    complete, other = incremental.below("ea")[0], incremental.below("ea-linear")[0]
    raw_only = type(other)(other.path, other.config, [each for each in other.rows if each.corrector == "raw"])
    figure = FIGURES["energies"].draw([complete, raw_only])
    assert figure.get_supxlabel() == "Not shown (no rows of raw and ea): linear head."
    assert len(panels(figure)) == 2
    with pytest.raises(EnergyAlignError, match="energies needs rows of raw and ea of one training: energyalign incr"):
        FIGURES["energies"].draw([raw_only])
