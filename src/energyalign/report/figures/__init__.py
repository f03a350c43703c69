"""Figures of stored runs: one file each, and a line in `FIGURES`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from energyalign.core.errors import EnergyAlignError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from energyalign.experiments.engine.stored import StoredRun
    from energyalign.report.drawing import Style


class MissingRowsError(EnergyAlignError):
    """An error that says what a figure needs, and which command makes it."""

    def __init__(self, needs: str, command: str) -> None:
        super().__init__(f"{needs}: {command}")
        self.needs = needs


class FigureEntry(NamedTuple):
    """An entry of the registry; matplotlib is imported when the first figure is drawn.

    Attributes
    ----------
    module : str
        Name of the file in this folder.
    description : str
    reference : str
        Paper that introduced this kind of figure.
    function : str, default "draw"
        Function of the module that takes runs and returns a figure.
    """

    module: str
    description: str
    reference: str
    function: str = "draw"

    def draw(self, runs: Sequence[StoredRun], style: Style | None = None) -> Figure:
        """Draw the figure; raise an `EnergyAlignError` that says what is missing if the runs do not allow it."""
        from energyalign.report.drawing import DEFAULT_STYLE, use_style

        with use_style(style or DEFAULT_STYLE):
            drawn: Figure = getattr(import_module(f"{__name__}.{self.module}"), self.function)(runs)
        return drawn


_PAPER, _OURS = "Zhao et al. 2021", "energyalign"

FIGURES: dict[str, FigureEntry] = {
    "energies": FigureEntry("energies", "training images and negative free energies, raw and aligned", _PAPER),
    "frequencies": FigureEntry("frequencies", "training images of each class, by cell or by step", _PAPER),
    "steps": FigureEntry("steps", "accuracy after each incremental step, top-1 and top-5", _PAPER),
    "confusion": FigureEntry("confusion", "confusion matrices, raw and aligned", _PAPER),
    "groups": FigureEntry("groups", "accuracy of many, medium and few, or old and new, classes", _PAPER),
    "clusters": FigureEntry("clusters", "balanced accuracy by number of clusters", _PAPER),
    "heads": FigureEntry("compared", "raw and aligned accuracy, for each head", _PAPER, "draw_heads"),
    "optimizers": FigureEntry("compared", "raw and aligned accuracy, for each optimizer", _PAPER, "draw_optimizers"),
    "shifts": FigureEntry("shifts", "shifts with their standard errors against minus the log prior", _OURS),
    "effective-samples": FigureEntry("effective_samples", "effective sample size of each class", _OURS),
    "strength": FigureEntry("strength", "accuracy by strength of the correction", _OURS),
    "matrix": FigureEntry("matrix", "balanced accuracy of every training with every corrector", _OURS),
    "reliability": FigureEntry("reliability", "confidence and accuracy, raw and aligned", "Guo et al. 2017"),
}  # fmt: skip

__all__ = ["FIGURES", "FigureEntry"]
