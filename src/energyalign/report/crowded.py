"""Thousands of points or bars as pixels, so that a page with them stays small."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import Collection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import StepPatch
from matplotlib.path import Path

_MOST_MARKS = 400
"""Of a panel: more cannot be told apart, and cost more bytes than its pixels."""
_FEW_MARKS = 50
"""Lines and bands of a crowded panel that are no crowd themselves stay as sharp as they are."""


@contextlib.contextmanager
def crowds_as_pixels(figure: Figure) -> Iterator[None]:
    """Inside, what panels have too much of is drawn as pixels, in the figure's resolution; text and axes never are."""
    crowds = [artist for axes in figure.axes for artist in _crowd(axes)]
    for artist in crowds:
        artist.set_rasterized(True)
    try:
        yield
    finally:
        for artist in crowds:
            artist.set_rasterized(False)


def _crowd(axes: Axes) -> list[Artist]:
    sets: list[list[Artist]] = [[artist] for artist in (*axes.lines, *axes.collections)]
    sets.append(list(axes.patches))  # bars are many artists, and one crowd
    marks = [sum(map(_marks, artists)) for artists in sets]
    if sum(marks) <= _MOST_MARKS:
        return []
    return [artist for artists, number in zip(sets, marks, strict=True) if number > _FEW_MARKS for artist in artists]


def _marks(artist: Artist) -> int:
    """About how much of an SVG file it takes: its points, or one for a bar."""
    if isinstance(artist, Line2D):
        return np.size(artist.get_xdata())
    if isinstance(artist, Collection):
        return sum(_points(path) for path in artist.get_paths())
    return _points(artist.get_path()) if isinstance(artist, StepPatch) else 1


def _points(path: Path) -> int:
    return int(np.shape(path.vertices)[0])
