"""Panels fit into any width, text keeps its size in every format, percentage axes end at 100."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_up_run import made_up_run
from matplotlib.figure import Figure

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.row import Settings
from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.drawing import Style, use_style
from energyalign.report.figures import FIGURES
from energyalign.report.panels import end_at_100, panels


@pytest.fixture
def run(tmp_path: Path) -> StoredRun:
    return made_up_run(tmp_path / "run", ["cat", "dog", "owl"])


def three_panels(style: Style, labels: tuple[str, ...] = ("a",)) -> Figure:
    with use_style(style), panels(3, what="What", about="of which", width=2.8, height=2.0) as (figure, axes):
        for label in labels:
            axes[0].plot([0, 1], label=label)
    return figure


@pytest.mark.parametrize(
    ("style", "inches", "columns"),
    [
        (Style(), 8.4, 3),
        (Style.make("page"), 6.75, 3),
        (Style.make("column"), 3.25, 2),
        (Style.make(3.25, 14), 3.25, 1),  # larger text needs wider panels
        (Style.make(font_size=18), 16.8, 3),
    ],
)
def test_as_many_panels_in_a_row_as_can_be_read(style: Style, inches: float, columns: int) -> None:
    figure = three_panels(style)
    assert figure.get_figwidth() == pytest.approx(inches)
    assert figure.axes[0].get_gridspec().ncols == columns  # type: ignore[union-attr]
    sizes = {label.get_fontsize() for axes in figure.axes for label in axes.get_xticklabels()}
    assert sizes == {style.size}


def test_title_and_legend_take_no_room_of_the_panels() -> None:
    plain = three_panels(Style(title=""), labels=())
    assert plain.get_suptitle() == ""
    titled, own = three_panels(Style(), labels=()), three_panels(Style(title="Mine"), labels=())
    assert (titled.get_suptitle(), own.get_suptitle()) == ("What\nof which", "Mine")
    assert plain.get_figheight() < own.get_figheight() < titled.get_figheight()
    many = tuple(f"a rather long name of line {k}" for k in range(12))
    assert three_panels(Style(), many).get_figheight() > titled.get_figheight() + 0.5


@pytest.mark.parametrize("width", ["column", "page"])
def test_long_names_of_lines_stay_within_the_figure(width: str) -> None:
    names = ("distill (cosine, random, fed back: ea) + ea-marginal, 2 seeds " * 2, "ea")
    figure = three_panels(Style.make(width), names)
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert legend.get_window_extent().x0 >= 0
    assert legend.get_window_extent().x1 <= figure.bbox.width
    texts = [text.get_text() for text in legend.get_texts()]
    assert " ".join(texts[0].split()) == names[0].strip()
    heights = [axes.get_window_extent().height for axes in figure.axes]
    short = three_panels(Style.make(width))
    short.draw_without_rendering()
    assert min(heights) > 0.85 * min(axes.get_window_extent().height for axes in short.axes)


def test_a_legend_has_no_more_columns_than_its_rows_need() -> None:
    four = ("perfectly calibrated", "accuracy, raw", "share of images", "accuracy, aligned")
    (legend,) = three_panels(Style(width=6.5), four).legends
    assert legend._ncols == 2  # not three panels, with one title in the second row


def test_the_second_line_of_a_title_breaks_after_commas() -> None:
    about = "digits-il-5, distill, cosine head, small-cnn, after step 5 of 5, 1 seed"
    with panels(1, what="What", about=about) as (figure, _):
        pass
    assert figure.get_suptitle() == "What\ndigits-il-5, distill, cosine head, small-cnn, after step 5 of 5,\n1 seed"


def test_the_style_ends_with_its_context(run: StoredRun) -> None:
    narrow = FIGURES["groups"].draw([run], Style.make("column", title=""))
    assert (narrow.get_figwidth(), narrow.get_suptitle()) == (3.25, "")
    assert FIGURES["groups"].draw([run]).get_figwidth() == 5.6


@pytest.mark.parametrize("width", [0, 1.9, 41, float("nan"), float("inf"), "narrow", ""])
def test_widths_that_are_refused(width: str | float) -> None:
    with pytest.raises(EnergyAlignError, match="width must be column, page or a number of inches from 2 to 40, got"):
        Style.make(width)


def test_per_cent_end_at_0_and_100() -> None:
    figure = Figure()
    above, within = figure.subplots(1, 2)
    above.errorbar([0, 1], [3, 95], yerr=[30, 30])
    within.plot([0, 1], [40, 60])
    before = within.get_ylim()
    end_at_100([above, within])
    low, high = above.get_ylim()
    assert low == 0
    assert 100 < high <= 102
    assert max(tick for tick in above.get_yticks() if tick <= high) == 100
    assert within.get_ylim() == before


def test_a_matrix_that_is_too_wide_is_turned_or_refused(run: StoredRun) -> None:
    others = [replace(run.rows[0], corrector=f"ea-M{k}") for k in (16, 2, 4, 8, 32, 64)]
    wide = StoredRun(run.path, run.config, [*run.rows, *others])
    across, down = FIGURES["matrix"].draw([wide]), FIGURES["matrix"].draw([wide], Style.make("column"))
    order = ["raw", "ea", "ea-M2", "ea-M4", "ea-M8", "ea-M16", "ea-M32", "ea-M64"]
    assert [text.get_text() for text in across.axes[0].get_xticklabels()] == order
    assert [text.get_text() for text in down.axes[0].get_yticklabels()] == order
    colours = [np.ma.getdata(figure.axes[0].images[0].get_array()) for figure in (across, down)]
    np.testing.assert_array_equal(colours[0], colours[1].T)
    with pytest.raises(EnergyAlignError, match=r"matrix needs \d.* inches for 1 column: use a larger width"):
        FIGURES["matrix"].draw([wide], Style.make(2, 20))


def test_cells_of_fewer_seeds_say_so(run: StoredRun) -> None:
    config = Settings({**run.config.values, "seed": 1})
    (row,) = [each for each in run.rows if each.corrector == "raw"]
    raw = StoredRun(run.path, config, [replace(row, seed=1, config=config)])
    texts = [text.get_text() for text in FIGURES["matrix"].draw([run, raw]).axes[0].texts]
    assert [text.partition("\n")[2] for text in texts] == ["", "(n = 1)"]
    titles = [axes.get_title() for axes in FIGURES["strength"].draw([run, raw]).axes]
    assert titles == ["ea\n1 of 2 seeds"]
