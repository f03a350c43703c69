"""Bars are accuracies of groups of classes in the rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from drawn import Stored, heights, is_labelled, panels, row

from energyalign.report.figures import FIGURES


def test_mean_and_deviation_over_seeds(long_tail: Stored) -> None:
    runs = long_tail.below("a-ce")
    figure = FIGURES["groups"].draw(runs)
    (axes,) = panels(figure)
    assert is_labelled(figure)
    groups = ("many", "medium", "few", "balanced")
    values = np.array(
        [
            [[100 * row(run.path, name)[group] for group in groups] for run in runs]
            for name in ("raw", "ea")
        ]
    )  # fmt: skip
    np.testing.assert_allclose(heights(axes), values.mean(axis=1).ravel())
    lengths = [high - low for lines in axes.collections for (_, low), (_, high) in lines.get_segments()]
    np.testing.assert_allclose(lengths, 2 * values.std(axis=1, ddof=1).ravel(), atol=1e-9)
    counts = np.array(row(runs[0].path, "raw")["counts"])
    sizes = [(counts > 100).sum(), ((counts >= 20) & (counts <= 100)).sum(), (counts < 20).sum(), len(counts)]
    shown = [text.get_text() for text in axes.get_xticklabels()]
    assert shown == [f"{group}\n({size})" for group, size in zip([*groups[:-1], "all"], sizes, strict=True)]


def test_old_and_new_classes_of_several_trainings(incremental: Stored) -> None:
    figure = FIGURES["groups"].draw(incremental.runs)
    assert [axes.get_title() for axes in panels(figure)] == ["cosine head", "linear head"]
    for axes, run in zip(panels(figure), incremental.runs, strict=True):
        expected = [
            100 * row(run.path, name, 5)[group] for name in ("raw", "ea") for group in ("old", "new", "balanced")
        ]
        np.testing.assert_allclose(heights(axes), expected)


def test_a_group_without_classes_is_not_drawn(long_tail: Stored) -> None:
    run = long_tail.below("b-linear")[0]
    rows = [replace(each, many=None, few=None, counts=(50,) * 10) for each in run.rows]
    (axes,) = panels(FIGURES["groups"].draw([type(run)(run.path, run.config, rows)]))
    assert [text.get_text() for text in axes.get_xticklabels()] == ["medium\n(10)", "all\n(10)"]
    assert len(heights(axes)) == 4


def test_a_group_that_was_not_measured_is_a_dash(long_tail: Stored) -> None:
    run = long_tail.below("b-linear")[0]
    rows = [replace(each, medium=None, counts=(50,) * 10) for each in run.rows]
    (axes,) = panels(FIGURES["groups"].draw([type(run)(run.path, run.config, rows)]))
    assert [text.get_text() for text in axes.texts[::2]] == ["–", "–"]
    assert heights(axes)[::2] == [0, 0]
