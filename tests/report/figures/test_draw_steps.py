"""Curves are the accuracies of the rows, step by step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from drawn import Stored, error_bars, is_labelled, line, panels, row
from matplotlib.figure import Figure

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.row import Settings
from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.figures import FIGURES
from energyalign.report.figures.steps import draw_curves, looks_of
from energyalign.report.tables import TABLES
from energyalign.report.tables.incremental import curves_of


@pytest.mark.parametrize(("place", "column", "label"), [(0, "balanced", "balanced"), (1, "top5", "top-5")])
def test_every_corrector_has_a_curve(incremental: Stored, place: int, column: str, label: str) -> None:
    (run,) = incremental.below("ea")
    figure = FIGURES["steps"].draw([run])
    axes = panels(figure)[place]
    assert is_labelled(figure)
    assert axes.get_ylabel() == f"{label} accuracy, %"
    for corrector in ("raw", "ea", "ea-marginal", "logit-adjustment"):
        x, y = line(axes, corrector)
        np.testing.assert_allclose(y, [100 * row(run.path, corrector, step)[column] for step in range(1, 6)])
        assert x.tolist() == [1, 2, 3, 4, 5]  # a single seed has no error bars, which could overlap
    assert axes.get_ylim()[1] <= 102


def test_curves_have_the_order_of_tables(incremental: Stored) -> None:
    figure = FIGURES["steps"].draw(incremental.runs)
    table = TABLES["steps"].make([each for run in incremental.runs for each in run.rows])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [line.method for line in table.lines]


def test_a_seed_that_is_not_finished_counts_where_it_is(incremental: Stored) -> None:
    (run,) = incremental.below("ea")
    config = Settings({**run.config.values, "seed": 1})
    begun = [replace(each, seed=1, config=config, balanced=each.balanced + 0.1) for each in run.rows if each.step < 3]
    figure = FIGURES["steps"].draw([run, StoredRun(run.path, config, begun)])
    _, y = line(panels(figure)[0], "ea")
    own = np.array([100 * row(run.path, "ea", step)["balanced"] for step in range(1, 6)])
    np.testing.assert_allclose(y, own + np.array([5, 5, 0, 0, 0]))
    # Two seeds in the first two steps, 10 % apart; a single seed has no deviation.
    np.testing.assert_allclose(error_bars(panels(figure)[0], "ea"), [np.sqrt(50)] * 2)


def test_curves_of_other_numbers_of_seeds_say_so(incremental: Stored) -> None:
    (run,) = incremental.below("ea")
    config = Settings({**run.config.values, "seed": 1})
    raw = [replace(each, seed=1, config=config) for each in run.rows if each.corrector == "raw"]
    figure = FIGURES["steps"].draw([run, StoredRun(run.path, config, raw)])
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["raw, 2 seeds", "logit-adjustment, 1 seed", "ea, 1 seed", "ea-marginal, 1 seed"]
    assert line(panels(figure)[0], "raw, 2 seeds")[0][0] != 1  # bars beside each other


def test_fifteen_lines_differ_in_colour_or_dashes_and_most_in_all() -> None:
    looks = looks_of(["raw", "ea", *(f"method {k}" for k in range(15))])
    others = [look for name, look in looks.items() if name.startswith("method")]
    assert len({(look["color"], str(look["linestyle"])) for look in others}) == 15
    assert len({look["marker"] for look in looks.values()}) >= 14
    assert not {look["color"] for look in others} & {looks["raw"]["color"], looks["ea"]["color"]}


def test_a_number_that_is_missing_is_no_nought(incremental: Stored) -> None:
    """There are no old classes in the first step."""
    (run,) = incremental.below("ea")
    curves = {"ea": curves_of(run.rows)["ea"]}
    axes = Figure().subplots()
    draw_curves(axes, curves, "old", looks_of(list(curves)))
    x, y = line(axes, "ea")
    assert x.tolist() == [2, 3, 4, 5]
    assert row(run.path, "ea", 1)["old"] is None
    np.testing.assert_allclose(y, [100 * row(run.path, "ea", step)["old"] for step in range(2, 6)])


def test_several_trainings_have_curves_by_method(incremental: Stored) -> None:
    figure = FIGURES["steps"].draw(incremental.runs)
    names = {bars.get_label() for bars in panels(figure)[0].containers}
    assert {"ea", "ea-linear"} < names
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(
        dict.fromkeys(bars.get_label() for bars in panels(figure)[0].containers)
    )


def test_a_long_tail_has_no_steps(long_tail: Stored) -> None:
    with pytest.raises(EnergyAlignError, match="steps needs runs whose classes came in steps: energyalign incremental"):
        FIGURES["steps"].draw(long_tail.runs)


def test_cells_do_not_share_an_axis(incremental: Stored) -> None:
    (run,) = incremental.below("ea")
    other = StoredRun(run.path, Settings({**run.config.values, "name": "cifar100-il-10"}), run.rows)
    with pytest.raises(
        EnergyAlignError, match="must be of one cell, got cifar100-il-10, digits-il-5: give runs of one cell"
    ):
        FIGURES["steps"].draw([run, other])


def test_settings_do_not_share_a_curve(incremental: Stored) -> None:
    (run,) = incremental.below("ea")
    values = run.config.values
    config = Settings({**values, "recipe": {**values["recipe"], "epochs": 7}})
    other = StoredRun(run.path, config, [replace(each, config=config) for each in run.rows])
    message = r"must have one training of .*, got 1 epoch and 7 epochs: draw a figure of each"
    with pytest.raises(EnergyAlignError, match=message):
        FIGURES["steps"].draw([run, other])
