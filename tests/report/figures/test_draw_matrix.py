"""Cells are mean accuracies; the best of a training is bold, missing numbers are dashes."""

from __future__ import annotations

import numpy as np
from drawn import Stored, is_labelled, panels, row

from energyalign.report.figures import FIGURES
from energyalign.report.tables import TABLES
from energyalign.report.tables.own import matrix_table


def test_long_tail(long_tail: Stored) -> None:
    figure = FIGURES["matrix"].draw(long_tail.runs)
    (axes,) = panels(figure)
    assert is_labelled(figure)
    trainings = [text.get_text() for text in axes.get_yticklabels()]
    assert trainings == ["cosine head, SGD with momentum", "linear head", "cosine head, Adam"]
    correctors = [text.get_text() for text in axes.get_xticklabels()]
    expected = "raw logit-adjustment ea ea-marginal ea-auto tau-norm ea-M1 ea-M2 ea-M4"
    assert correctors == expected.split()
    drawn = np.ma.filled(axes.images[0].get_array().astype(float), np.nan)
    texts = np.array([text.get_text() for text in axes.texts]).reshape(drawn.shape)
    bold = np.array([text.get_fontweight() == "bold" for text in axes.texts]).reshape(drawn.shape)
    for i, training in enumerate(("a-ce", "b-linear", "c-adam")):
        runs = long_tail.below(training)
        measured = {each.corrector for each in runs[0].rows}
        for j, name in enumerate(correctors):
            if name not in measured:
                assert texts[i, j] == "–"
                assert np.isnan(drawn[i, j])
                continue
            values = [100 * row(run.path, name)["balanced"] for run in runs]
            np.testing.assert_allclose(drawn[i, j], np.mean(values))
            assert texts[i, j].startswith(f"{np.mean(values):.1f}")
            assert ("±" in texts[i, j]) == (len(runs) > 1)
        table = matrix_table([each for run in runs for each in run.rows])
        best = {column.title: cell.best for column, cell in zip(table.columns, table.lines[0].cells, strict=True)}
        assert any(best.values())
        assert bold[i].tolist() == [best.get(name, False) for name in correctors]


def test_last_step(incremental: Stored) -> None:
    figure = FIGURES["matrix"].draw(incremental.runs)
    (axes,) = panels(figure)
    assert "after step 5 of 5" in figure.get_suptitle()
    names = [text.get_text() for text in axes.get_xticklabels()]
    assert names == ["raw", "logit-adjustment", "ea", "ea-marginal"]
    drawn = np.ma.filled(axes.images[0].get_array().astype(float), np.nan)
    for i, (run, measured) in enumerate(zip(incremental.runs, (names, ["raw", "ea"]), strict=True)):
        values = [100 * row(run.path, name, 5)["balanced"] if name in measured else np.nan for name in names]
        np.testing.assert_allclose(drawn[i], values)


def test_the_table_has_the_numbers_of_the_figure(incremental: Stored) -> None:
    (axes,) = panels(FIGURES["matrix"].draw(incremental.runs))
    names = [text.get_text() for text in axes.get_xticklabels()]
    drawn = np.ma.filled(axes.images[0].get_array().astype(float), np.nan)
    bold = np.array([text.get_fontweight() == "bold" for text in axes.texts]).reshape(drawn.shape)
    table = TABLES["matrix"].make([each for run in incremental.runs for each in run.rows])
    order = [names.index(column.title) for column in table.columns]
    means = [[np.nan if cell.mean is None else cell.mean for cell in of.cells] for of in table.lines]
    np.testing.assert_allclose(means, drawn[:, order])
    assert [[cell.best for cell in of.cells] for of in table.lines] == bold[:, order].tolist()
