"""Cells are mean accuracies; the best of a training is bold, what is missing is a dash."""

from __future__ import annotations

import numpy as np
from drawn import Stored, is_labelled, panels, row

from energyalign.report.figures import FIGURES


def test_long_tail(long_tail: Stored) -> None:
    figure = FIGURES["matrix"].draw(long_tail.runs)
    (axes,) = panels(figure)
    assert is_labelled(figure)
    trainings = [text.get_text() for text in axes.get_yticklabels()]
    assert trainings == ["cosine head, SGD with momentum", "linear head", "cosine head, Adam"]
    correctors = [text.get_text() for text in axes.get_xticklabels()]
    expected = "raw la-post-hoc ea ea-marginal ea-auto tau-norm ea-M1 ea-M2 ea-M4"
    assert correctors == expected.split()
    drawn = np.ma.filled(axes.images[0].get_array().astype(float), np.nan)
    texts = np.array([text.get_text() for text in axes.texts]).reshape(drawn.shape)
    bold = np.array([text.get_fontweight() == "bold" for text in axes.texts]).reshape(drawn.shape)
    for i, training in enumerate(("a-ce", "b-linear", "c-adam")):
        runs = long_tail.below(training)
        measured = {each["corrector"] for each in runs[0].rows}
        for j, name in enumerate(correctors):
            if name not in measured:
                assert texts[i, j] == "–"
                assert np.isnan(drawn[i, j])
                continue
            values = [100 * row(run.path, name)["overall"] for run in runs]
            np.testing.assert_allclose(drawn[i, j], np.mean(values))
            assert texts[i, j].startswith(f"{np.mean(values):.1f}")
            assert ("±" in texts[i, j]) == (len(runs) > 1)
        np.testing.assert_array_equal(bold[i], drawn[i] == np.nanmax(drawn[i]))


def test_last_step(incremental: Stored) -> None:
    (axes,) = panels(FIGURES["matrix"].draw(incremental.runs))
    drawn = np.ma.filled(axes.images[0].get_array().astype(float), np.nan)
    for i, run in enumerate(incremental.runs):
        np.testing.assert_allclose(drawn[i, :2], [100 * row(run.path, name, 5)["overall"] for name in ("raw", "ea")])
    assert np.isnan(drawn[1, 2:]).all()
