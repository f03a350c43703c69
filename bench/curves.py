"""Draw how time and memory grow. Points below the dashed line grow less than proportionally."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

from bench.line import Line
from energyalign.report.drawing import BLUE, GREEN, GREY, GRID, INK, ORANGE, PURPLE, VERMILLION, new_figure, save_figure

_COLOURS = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE)
_TICKS = (1, 2, 4, 8, 16)


def draw_curves(lines: Sequence[Line], path: Path) -> None:
    """Draw a panel for each subject and a colour for each workload; time is solid, memory dotted."""
    subjects = list(dict.fromkeys(line.name for line in lines))
    with new_figure(
        width=2.6 * len(subjects), height=3.6, title="What growth costs, beside the smallest size"
    ) as figure:
        panels = figure.subplots(1, len(subjects), sharex=True, sharey=True, squeeze=False)[0]
        for panel, subject in zip(panels, subjects, strict=True):
            _draw(panel, subject, [line for line in lines if line.name == subject])
        panels[0].set_ylabel("times as much time (solid)\nor memory (dotted)")
        save_figure(figure, path)


def _draw(panel: Axes, subject: str, lines: Sequence[Line]) -> None:
    panel.plot(_TICKS, _TICKS, color=GREY, linestyle="--", linewidth=1)
    panel.grid(color=GRID, linewidth=0.5)
    colours = dict(zip(dict.fromkeys(line.workload for line in lines), _COLOURS, strict=False))
    for line in lines:
        (size, taken), is_time = line.curve[0], line.unit == "s"
        panel.plot(
            [each / size for each, _ in line.curve], [each / taken for _, each in line.curve], marker="o", markersize=3,
            color=colours[line.workload], linestyle="-" if is_time else ":",
            label=_legend(line) if is_time else None,
        )  # fmt: skip
    panel.set(xscale="log", yscale="log", title=subject.removeprefix("growth of "), xlabel="times as large")
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_locator(FixedLocator(_TICKS))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter("{x:g}")
    panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22), fontsize=7, labelcolor=INK)


def _legend(line: Line) -> str:
    """Label a workload with its smallest and largest size."""
    sizes, of = line.workload.rsplit(", ", 1)
    smallest, largest = (f"{size:,.0f}" for size in (line.curve[0][0], line.curve[-1][0]))
    return f"{smallest} to {largest} {sizes.rsplit(' ', 1)[1]},\n{of}"
