"""Output formats of tables, one file each."""

from __future__ import annotations

from collections.abc import Callable

from energyalign.report.tables.formats.csv_text import to_csv
from energyalign.report.tables.formats.json_text import to_json
from energyalign.report.tables.formats.latex import to_latex
from energyalign.report.tables.formats.markdown import to_markdown
from energyalign.report.tables.formats.terminal import to_terminal
from energyalign.report.tables.model import PaperTable

FORMATS: dict[str, Callable[[PaperTable], str]] = {
    "terminal": to_terminal,
    "markdown": to_markdown,
    "latex": to_latex,
    "csv": to_csv,
    "json": to_json,
}
