"""What a table can be printed as, one file each."""

from __future__ import annotations

from collections.abc import Callable

from energyalign.experiments.engine.config import look_up
from energyalign.report.tables.formats.csv_text import to_csv
from energyalign.report.tables.formats.latex import to_latex
from energyalign.report.tables.formats.markdown import to_markdown
from energyalign.report.tables.formats.terminal import to_terminal
from energyalign.report.tables.model import PaperTable

FORMATS: dict[str, Callable[[PaperTable], str]] = {
    "terminal": to_terminal,
    "markdown": to_markdown,
    "latex": to_latex,
    "csv": to_csv,
}


def find_format(name: str) -> Callable[[PaperTable], str]:
    """By name."""
    return look_up(FORMATS, name, "format")
