"""The colours are log(1 + n) of the numbers that were given, on one scale."""

import numpy as np
import pytest

from energyalign.report.confusion_figure import draw_confusions

BEFORE = np.array([[5.0, 0.0, 45.0], [0.0, 10.0, 40.0], [0.0, 0.0, 50.0]])
AFTER = np.array([[40.0, 1.0, 9.0], [2.0, 40.0, 8.0], [4.0, 3.0, 43.0]])


@pytest.fixture
def panels(tmp_path, saved):
    draw_confusions(
        tmp_path / "f.png",
        matrices={"without": BEFORE, "with": AFTER},
        title="T",
        n_old=2,
        class_names=["ant", "bee", "cat"],
        label="flies",
    )
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")
    return saved[0], [axes for axes in saved[0].axes if axes.images]


def test_images_are_logarithms_in_the_order_given(panels):
    _, axes = panels
    for panel, name, matrix in zip(axes, ("without", "with"), (BEFORE, AFTER), strict=True):
        assert panel.get_title() == name
        np.testing.assert_allclose(panel.images[0].get_array(), np.log(1 + matrix))


def test_panels_share_the_scale_and_its_names_are_counts(panels):
    figure, axes = panels
    assert {panel.images[0].get_clim() for panel in axes} == {(0.0, np.log(51.0))}
    (bar,) = [each for each in figure.axes if "flies" in each.get_ylabel()]
    shown = [float(label.get_text()) for label in bar.get_yticklabels()]
    assert shown == [0, 1, 3, 10, 30]
    np.testing.assert_allclose(bar.get_yticks(), np.log(1 + np.array(shown)))


def test_rows_are_true_and_columns_predicted_classes(panels):
    _, axes = panels
    assert [panel.get_xlabel() for panel in axes] == ["predicted class"] * 2
    assert axes[0].get_ylabel() == "true class"
    for labels in (axes[0].get_xticklabels(), axes[0].get_yticklabels(), axes[1].get_xticklabels()):
        assert [label.get_text() for label in labels] == ["ant", "bee", "cat"]
    assert axes[0].yaxis_inverted()  # the first class is at the top


def test_lines_divide_old_from_new_classes(panels):
    for panel in panels[1]:
        across, down = panel.lines
        assert list(across.get_ydata()) == [1.5, 1.5]
        assert list(down.get_xdata()) == [1.5, 1.5]


def test_a_hundred_classes_have_few_ticks_and_no_line_unless_asked_for(tmp_path, saved):
    draw_confusions(
        tmp_path / "f.png", matrices={"raw": np.eye(100)}, title="T", class_names=[f"class {k}" for k in range(100)]
    )
    axes = saved[0].axes[0]
    assert not axes.lines
    for ticks in (axes.get_xticks(), axes.get_yticks()):
        assert 3 <= len(ticks) <= 10
        assert (ticks == ticks.round()).all()
