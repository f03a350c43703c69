"""Figures: equal bytes for equal numbers, and an SVG for light and dark pages."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from made_up_run import made_up_run
from matplotlib.figure import Figure

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.drawing import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    VERMILLION,
    VIOLET,
    new_figure,
    page_svg,
    save_figure,
)
from energyalign.report.figures import FIGURES

HOSTILE = ["$x", "<script>alert(1)</script>", "$a$ & b", "a--b", "new\nline", "\x01", "cat"]


def small_figure() -> Figure:
    with new_figure(width=3, height=2, title="T") as figure:
        axes = figure.subplots()
        axes.plot([0, 1], [1, 2], color=BLUE)
        axes.set_xlabel("x")
    return figure


@pytest.mark.parametrize(("suffix", "beginning"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_the_same_bytes_twice(tmp_path: Path, suffix: str, beginning: bytes) -> None:
    paths = [tmp_path / f"{k}.{suffix}" for k in range(2)]
    for path in paths:
        save_figure(small_figure(), path)
    content = paths[0].read_bytes()
    assert content.startswith(beginning)
    assert content == paths[1].read_bytes()
    assert b"Date" not in content


def test_another_suffix_is_refused_and_nothing_written(tmp_path: Path) -> None:
    with pytest.raises(EnergyAlignError, match=r"must be a \.png, \.svg or \.pdf file, got .*f\.gif"):
        save_figure(small_figure(), tmp_path / "f.gif")
    assert not list(tmp_path.iterdir())


def test_our_look_stays_ours() -> None:
    before = mpl.rcParams["text.color"]
    assert small_figure().get_axes()[0].xaxis.label.get_color() == INK
    assert mpl.rcParams["text.color"] == before


def test_no_matplotlibrc_changes_a_figure(tmp_path: Path) -> None:
    """One in the current folder may come from anyone."""
    save_figure(small_figure(), tmp_path / "ours.png")
    with mpl.rc_context({"text.usetex": True, "axes.facecolor": "red", "savefig.dpi": 30}):
        save_figure(small_figure(), tmp_path / "theirs.png")
        assert mpl.rcParams["text.usetex"]
    assert (tmp_path / "theirs.png").read_bytes() == (tmp_path / "ours.png").read_bytes()


def test_the_page_exchanges_ink_on_a_dark_background() -> None:
    text = page_svg(small_figure())
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    style = root.find("{http://www.w3.org/2000/svg}style")
    assert style is not None
    assert style.text is not None
    light, dark = re.findall(r"svg{color:(#\w+)", style.text)
    assert light == INK
    assert "@media (prefers-color-scheme:dark)" in style.text
    assert np.mean([int(dark[k : k + 2], 16) for k in (1, 3, 5)]) > 200
    drawn = text.split("</style>", 1)[1]
    assert "currentColor" in drawn
    assert "var(--blue)" in drawn
    assert INK.lower() not in drawn.lower()
    assert "#ffffff" not in drawn  # the background is that of the page
    assert page_svg(small_figure()) == text


def luminance(colour: str) -> float:
    """Return the relative luminance defined by WCAG 2."""
    shares = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


@pytest.mark.parametrize("colour", [BLUE, ORANGE, GREEN, VERMILLION, PURPLE, VIOLET, GREY])
def test_lines_stand_out_from_a_light_and_a_dark_page(colour: str) -> None:
    assert 1.05 / (luminance(colour) + 0.05) >= 3
    assert (luminance(colour) + 0.05) / (luminance("#14171a") + 0.05) >= 3


def drawn_of(run: StoredRun) -> dict[str, Figure]:
    """Draw every figure that the run allows."""
    figures = {}
    for name, entry in FIGURES.items():
        with contextlib.suppress(EnergyAlignError):
            figures[name] = entry.draw([run])
    return figures


def test_a_thousand_classes_stay_small_and_ten_stay_sharp(tmp_path: Path) -> None:
    run = made_up_run(tmp_path / "run", [f"class {k}" for k in range(1000)], per_class=1)
    # Add rows of all correctors.
    others = [replace(run.rows[1], corrector=f"ea-M{k}") for k in range(2, 11)]
    crowded = drawn_of(StoredRun(run.path, run.config, [*run.rows, *others]))
    assert {"shifts", "energies", "effective-samples", "frequencies", "confusion"} < set(crowded)
    for name, figure in crowded.items():
        assert len(page_svg(figure)) < 300_000, name
    ten = made_up_run(tmp_path / "ten", list("abcdefghij"))
    for name, figure in drawn_of(ten).items():
        assert ("<image" in page_svg(figure)) == (name in ("confusion", "matrix")), name


def test_text_axes_and_sparse_lines_beside_a_crowd_are_no_pixels() -> None:
    with new_figure(width=3, height=2, title="T") as figure:
        axes = figure.subplots()
        axes.plot([0, 1], [0, 1], color="#123456")
        axes.plot(np.linspace(0, 1, 500), np.linspace(0, 1, 500) ** 2, "o", color="#654321")
        axes.set_xlabel("x")
    text = page_svg(figure)
    assert text.count("<image") == 1
    assert "#123456" in text
    assert "#654321" not in text
    assert text.count('id="text_') > 2
    assert not any(line.get_rasterized() for line in axes.lines)  # a file of it is as sharp as ever


@pytest.mark.parametrize("name", ["energies", "confusion", "frequencies"])
def test_hostile_class_names_are_text(tmp_path: Path, name: str) -> None:
    figure = FIGURES[name].draw([made_up_run(tmp_path / "run", HOSTILE)])
    labels = figure.axes[0].get_xticklabels()
    shown = ["$x", "<script>alert(1)</script>"[:23] + "…", "$a$ & b", "a--b", "new\ufffdline", "\ufffd", "cat"]
    assert [label.get_text() for label in labels] == shown[2:] + shown[:2]  # most images first
    assert not any(label.get_parse_math() for label in labels)
    root = ElementTree.fromstring(page_svg(figure))
    assert not [element for element in root.iter() if element.tag.endswith("script")]
    save_figure(figure, tmp_path / "f.svg")
    assert "<script" not in (tmp_path / "f.svg").read_text()
