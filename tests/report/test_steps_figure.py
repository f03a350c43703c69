"""The curves are the means and deviations of the numbers that were given."""

import numpy as np
import pytest

from energyalign.report.steps_figure import draw_steps

RAW = np.array([[90.0, 60.0, 30.0], [80.0, 50.0, 40.0]])
ALIGNED = np.array([[90.0, 80.0, 70.0], [80.0, 80.0, 60.0]])


def curve_of(axes, name):
    """Line, and ends of the bars, of the curve with this label."""
    handles, labels = axes.get_legend_handles_labels()
    line, _, bars = handles[labels.index(name)]
    return line, [np.array(segment)[:, 1] for bar in bars for segment in bar.get_segments()]


def test_curves_are_means_and_bars_are_one_standard_deviation(tmp_path, saved):
    draw_steps(tmp_path / "f.png", curves={"raw": RAW, "ea": ALIGNED}, title="T")
    (axes,) = saved[0].axes
    for name, values in (("raw", RAW), ("ea", ALIGNED)):
        line, bars = curve_of(axes, name)
        np.testing.assert_allclose(line.get_ydata(), values.mean(axis=0))
        # Two numbers a and b have the standard deviation |a - b| / sqrt(2).
        half = np.abs(values[0] - values[1]) / np.sqrt(2)
        np.testing.assert_allclose(bars, np.stack([values.mean(axis=0) - half, values.mean(axis=0) + half], axis=1))


def test_curves_of_a_step_stand_beside_each_other_and_nearer_to_it_than_to_any_other(tmp_path, saved):
    draw_steps(tmp_path / "f.png", curves={"raw": RAW, "ea": ALIGNED, "prior": ALIGNED}, title="T", x=[10, 20, 40])
    places = np.array([curve_of(saved[0].axes[0], name)[0].get_xdata() for name in ("raw", "ea", "prior")])
    assert (np.diff(places, axis=0) > 0).all()
    assert (np.abs(places - [10, 20, 40]) < 5).all()


def test_labels_are_those_that_were_given(tmp_path, saved):
    draw_steps(tmp_path / "f.png", curves={"raw": RAW}, title="T", x=[2, 4, 6], x_label="classes seen", y_label="share")
    (axes,) = saved[0].axes
    assert (axes.get_xlabel(), axes.get_ylabel(), saved[0].get_suptitle()) == ("classes seen", "share", "T")
    assert [label.get_text() for label in axes.get_xticklabels()] == ["2", "4", "6"]
    np.testing.assert_allclose(axes.get_xticks(), [2, 4, 6])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["raw"]
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")


def test_one_seed_has_no_bars(tmp_path, saved):
    draw_steps(tmp_path / "f.png", curves={"raw": RAW[:1]}, title="T")
    line, bars = curve_of(saved[0].axes[0], "raw")
    np.testing.assert_allclose(line.get_ydata(), RAW[0])
    assert bars == []


@pytest.mark.parametrize("n_curves", [4, 14])
def test_no_two_curves_look_the_same(tmp_path, saved, n_curves):
    draw_steps(tmp_path / "f.png", curves={str(k): RAW + k for k in range(n_curves)}, title="T")
    lines = [curve_of(saved[0].axes[0], str(k))[0] for k in range(n_curves)]
    assert len({(line.get_color(), line.get_marker(), line.get_linestyle()) for line in lines}) == n_curves


def test_many_steps_have_few_ticks_that_are_whole(tmp_path, saved):
    draw_steps(tmp_path / "f.png", curves={"raw": np.tile(RAW, 10)}, title="T")
    ticks = saved[0].axes[0].get_xticks()
    assert len(ticks) <= 14
    assert (ticks == ticks.round()).all()
