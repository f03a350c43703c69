"""Every figure of the report: a pure function of stored runs. One file each, and a line here."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from energyalign.experiments.engine.stored import StoredRun
    from energyalign.report.drawing import Style


class FigureEntry(NamedTuple):
    """A row of the registry, which is light: matplotlib comes with the first figure that is drawn.

    Attributes
    ----------
    module : str
        The file in this folder.
    description, reference : str
        What it shows, and where such a figure was shown first.
    function : str
        Of the module: takes runs, returns a figure.
    """

    module: str
    description: str
    reference: str
    function: str = "draw"

    def draw(self, runs: Sequence[StoredRun], style: Style | None = None) -> Figure:
        """The figure of these runs; an `EnergyAlignError` that says what is missing if they do not allow it."""
        from energyalign.report.drawing import DEFAULT_STYLE, use_style

        with use_style(style or DEFAULT_STYLE):
            drawn: Figure = getattr(import_module(f"{__name__}.{self.module}"), self.function)(runs)
        return drawn


_PAPER, _OURS = "Zhao et al. 2021", "energyalign"

FIGURES: dict[str, FigureEntry] = {
    "energies": FigureEntry("energies", "training counts beside negative free energies, before and after", _PAPER),
    "frequencies": FigureEntry("frequencies", "training images of each class, by cell or by step", _PAPER),
    "steps": FigureEntry("steps", "accuracy after each incremental step, top-1 and top-5", _PAPER),
    "confusion": FigureEntry("confusion", "what is taken for what, without and with energy aligning", _PAPER),
    "groups": FigureEntry("groups", "accuracy of many, medium and few, or old and new, classes", _PAPER),
    "clusters": FigureEntry("clusters", "accuracy against the number of clusters", _PAPER),
    "heads": FigureEntry("compared", "with and without energy aligning, for each head", _PAPER, "draw_heads"),
    "optimizers": FigureEntry(
        "compared", "with and without energy aligning, for each optimizer", _PAPER, "draw_optimizers"
    ),
    "shifts": FigureEntry("shifts", "shifts with their standard errors against minus the log prior", _OURS),
    "effective-samples": FigureEntry("effective_samples", "effective sample size of each class", _OURS),
    "strength": FigureEntry("strength", "accuracy against the strength of the correction", _OURS),
    "matrix": FigureEntry("matrix", "every training under every corrector", _OURS),
    "reliability": FigureEntry("reliability", "confidence against accuracy, before and after", "Guo et al. 2017"),
}  # fmt: skip

__all__ = ["FIGURES", "FigureEntry"]
