"""Read figures and the files behind them, independently of the code under test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from safetensors.numpy import load_file

from energyalign.experiments.engine.stored import StoredRun


class Stored(NamedTuple):
    """Run directories below a folder, and the report's view of them."""

    folder: Path
    runs: list[StoredRun]

    def below(self, name: str) -> list[StoredRun]:
        """Return the runs of one training."""
        return [run for run in self.runs if run.path.parent.name == name]


def row(path: Path, corrector: str, step: int | None = None) -> dict[str, Any]:
    """Return the row of a corrector; for a run with steps, after one step."""
    rows = [json.loads(line) for line in (path / "rows.jsonl").read_text().splitlines()]
    (found,) = [each for each in rows if each["corrector"] == corrector and step in (None, each.get("step"))]
    return found


def logits(path: Path) -> tuple[Any, Any]:
    """Return test logits in double precision, and labels."""
    arrays = load_file(path / "test_logits.safetensors")
    return arrays["logits"].astype(np.float64), arrays["labels"]


def shifted(path: Path, corrector: str) -> Any:
    """Return the test logits of a long-tailed run, shifted by a corrector."""
    return logits(path)[0] + np.array(row(path, corrector)["shifts"])


def panels(figure: Figure) -> list[Axes]:
    """Return the axes of a figure, without colour bars and secondary axes."""
    return [axes for axes in figure.axes if axes.get_subplotspec() is not None and axes.xaxis.get_visible()]


def heights(axes: Axes) -> list[float]:
    """Return the heights of all bars."""
    return [bar.get_height() for bar in axes.patches]  # type: ignore[attr-defined]


def line(axes: Axes, label: str) -> tuple[Any, Any]:
    """Return the data of the line, or of the points with error bars, with this label."""
    named = [(each, each.get_label()) for each in axes.lines]
    named += [(bars.lines[0], bars.get_label()) for bars in axes.containers if hasattr(bars, "lines")]
    (found,) = [each for each, name in named if name == label]
    return np.asarray(found.get_xdata()), np.asarray(found.get_ydata())


def error_bars(axes: Axes, label: str) -> Any:
    """Return half the length of each error bar of the points with this label."""
    (bars,) = [each for each in axes.containers if each.get_label() == label]
    (segments,) = bars.lines[2]
    ends = [segment for segment in segments.get_segments() if len(segment)]
    return np.array([(high - low) / 2 for (_, low), (_, high) in ends])


def is_labelled(figure: Figure) -> bool:
    """Return whether every panel has an x label, and every row a y label at its left."""
    return all(axes.get_xlabel() for axes in panels(figure)) and all(
        axes.get_ylabel()
        for axes in panels(figure)
        if axes.get_subplotspec().is_first_col()  # type: ignore[union-attr]
    )
