"""Files with the same bytes for the same numbers, and an SVG for light and dark pages."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from made_up_run import made_up_run
from matplotlib.figure import Figure

from energyalign.core.errors import EnergyAlignError
from energyalign.report.drawing import BLUE, INK, new_figure, page_svg, save_figure
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
    with pytest.raises(EnergyAlignError, match=r"f\.gif: a figure is a \.png, \.svg or \.pdf file"):
        save_figure(small_figure(), tmp_path / "f.gif")
    assert not list(tmp_path.iterdir())


def test_our_look_stays_ours() -> None:
    before = mpl.rcParams["text.color"]
    assert small_figure().get_axes()[0].xaxis.label.get_color() == INK
    assert mpl.rcParams["text.color"] == before


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
