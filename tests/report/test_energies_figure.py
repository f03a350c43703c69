"""The figure shows the numbers it was given."""

import numpy as np
import pytest

from energyalign.report.energies_figure import draw_energies

COUNTS = [100, 10, 1]
BEFORE = np.array([[2.0, 0.0, -2.0], [4.0, 0.0, -4.0]])
AFTER = np.array([[0.1, 0.0, -0.1], [0.1, 0.0, -0.1]])


@pytest.fixture
def drawn(tmp_path, saved):
    draw_energies(tmp_path / "f.png", counts=COUNTS, before=BEFORE, after=AFTER, title="T", class_names=["a", "b", "c"])
    return saved[0], tmp_path / "f.png"


def test_bars_are_counts_and_points_are_mean_energies(drawn):
    figure, _ = drawn
    bars = [axes for axes in figure.axes if axes.patches]
    lines = [axes for axes in figure.axes if axes.lines]
    assert len(bars) == len(lines) == 2
    for axes in bars:
        assert [bar.get_height() for bar in axes.patches] == COUNTS
        assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b", "c"]
    for axes, values in zip(lines, (BEFORE, AFTER), strict=True):
        np.testing.assert_allclose(axes.lines[0].get_ydata(), values.mean(axis=0))


def test_both_panels_share_one_energy_scale_that_holds_all_points(drawn):
    figure, _ = drawn
    limits = {axes.get_ylim() for axes in figure.axes if axes.lines}
    assert len(limits) == 1
    low, high = limits.pop()
    assert low < -4
    assert high > 4


def test_axes_are_labelled(drawn):
    figure, path = drawn
    labels = {axes.get_ylabel() for axes in figure.axes} | {axes.get_xlabel() for axes in figure.axes}
    assert {"training images", "negative free energy", "class"} <= labels
    assert {axes.get_title() for axes in figure.axes} >= {"raw model", "corrected model"}
    assert path.read_bytes().startswith(b"\x89PNG")
