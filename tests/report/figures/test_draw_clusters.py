"""Points are rows with a fixed number of clusters; lines are raw and ea."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from drawn import Stored, error_bars, is_labelled, line, panels, row

from energyalign.core.errors import EnergyAlignError
from energyalign.report.figures import FIGURES


def test_two_seeds(long_tail: Stored) -> None:
    runs = long_tail.below("a-ce")
    figure = FIGURES["clusters"].draw(long_tail.runs)
    (axes,) = panels(figure)
    assert is_labelled(figure)
    x, y = line(axes, "ea, fixed number")
    assert x.tolist() == [1, 2, 4]
    values = np.array([[100 * row(run.path, f"ea-M{m}")["balanced"] for m in (1, 2, 4)] for run in runs])
    np.testing.assert_allclose(y, values.mean(axis=0))
    bars = error_bars(axes, "ea, fixed number")
    np.testing.assert_allclose(bars, values.std(axis=0, ddof=1), atol=1e-9)
    for corrector, label in (("raw", "raw"), ("ea", "ea, chosen number")):
        expected = np.mean([100 * row(run.path, corrector)["balanced"] for run in runs])
        np.testing.assert_allclose(line(axes, label)[1], expected)
    chosen = sorted({row(run.path, "ea")["n_clusters"] for run in runs})
    assert f"ea chose {', '.join(map(str, chosen))} clusters" in axes.get_title()
    note = figure.legends[0].get_title().get_text()
    assert note.startswith("Not shown (no rows with several numbers of clusters):")
    assert "linear head" in note


def test_without_such_rows(incremental: Stored) -> None:
    message = "clusters needs rows with several numbers of clusters: energyalign longtail DATASET --clusters 1 2 4 8$"
    with pytest.raises(EnergyAlignError, match=message):
        FIGURES["clusters"].draw(incremental.runs)


def test_numbers_of_clusters_and_lines_are_of_the_same_seeds(long_tail: Stored) -> None:
    first, second = long_tail.below("a-ce")
    second = replace(second, rows=[each for each in second.rows if each.corrector in ("raw", "ea")])  # as after --from
    figure = FIGURES["clusters"].draw([first, second])
    (axes,) = panels(figure)
    raw = 100 * row(first.path, "raw")["balanced"]
    np.testing.assert_allclose(line(axes, "raw")[1], raw)
    np.testing.assert_allclose(line(axes, "ea, fixed number")[1][0], raw)  # one cluster is raw
    assert "seed 1" in figure.legends[0].get_title().get_text()
