"""One HTML file that opens from disk: tables, what they say, and pictures inside it."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from energyalign.core.atomic import atomic_write

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 58rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; line-height: 1.2; }
h2 { font-size: 1.2rem; line-height: 1.2; margin-top: 2.5rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
.wide + .wide { margin-top: 1.5rem; }
caption { text-align: left; padding-bottom: .35rem; }
th, td { padding: .35rem .45rem; text-align: right; white-space: nowrap; }
th.text, td.text { text-align: left; }
thead th { border-bottom: 2px solid; }
tbody tr + tr > * { border-top: 1px solid color-mix(in srgb, currentColor 20%, transparent); }
tbody th { font-weight: 400; }
figure { margin: 1.5rem 0; }
img { max-width: 100%; height: auto; background: white; border-radius: 4px; }
figcaption, .note { font-size: .9rem; opacity: .85; }
code { font-size: .95em; }
"""


@dataclass(frozen=True)
class Table:
    """Lines of cells as they are to be read, and what they are of."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


@dataclass(frozen=True)
class Figure:
    """A PNG file and what it shows."""

    path: Path
    caption: str


@dataclass(frozen=True)
class Section:
    """Tables, paragraphs that say what was measured, figures."""

    title: str
    tables: Sequence[Table]
    paragraphs: Sequence[str]
    figures: Sequence[Figure]


def write_page(path: Path, *, title: str, command: str, sections: Sequence[Section]) -> None:
    """Write the page. All text is escaped; pictures are embedded, so that nothing else is loaded."""
    page = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{escape(title)}</h1>
{"".join(map(_section, sections))}
<p class="note">Made by <code>{escape(command)}</code>.</p>
</body>
</html>
"""
    with atomic_write(path) as stream:
        stream.write(page)


def _section(section: Section) -> str:
    notes = "".join(f'<p class="note">{escape(text)}</p>\n' for text in section.paragraphs)
    tables, figures = "".join(map(_table, section.tables)), "".join(map(_figure, section.figures))
    return f"<section>\n<h2>{escape(section.title)}</h2>\n{tables}{notes}{figures}</section>\n"


def _table(table: Table) -> str:
    text = [not all(_is_number(row[k]) for row in table.rows) for k in range(len(table.columns))]
    heads = "".join(
        f'<th scope="col"{_kind(t)}>{escape(name)}</th>' for name, t in zip(table.columns, text, strict=True)
    )
    body = "\n".join(_table_row(row, text) for row in table.rows)
    caption = f"<caption>{escape(table.caption)}</caption>\n" if table.caption else ""
    return f"""<div class="wide"><table>
{caption}<thead><tr>{heads}</tr></thead>
<tbody>
{body}
</tbody>
</table></div>
"""


def _table_row(row: Sequence[str], text: Sequence[bool]) -> str:
    cells = "".join(f"<td{_kind(t)}>{escape(cell)}</td>" for cell, t in zip(row[1:], text[1:], strict=True))
    return f'<tr><th scope="row"{_kind(text[0])}>{escape(row[0])}</th>{cells}</tr>'


def _kind(is_text: bool) -> str:
    """Text stands to the left, numbers to the right."""
    return ' class="text"' if is_text else ""


def _is_number(cell: str) -> bool:
    return cell[:1].isdigit() or cell[:1] in ("-", "+", "")


def _figure(figure: Figure) -> str:
    data = base64.b64encode(figure.path.read_bytes()).decode()
    caption = escape(figure.caption)
    return (
        f'<figure><img src="data:image/png;base64,{data}" alt="{caption}"><figcaption>{caption}</figcaption></figure>\n'
    )
