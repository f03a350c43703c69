"""One HTML file that opens from disk: a table, what it says, and pictures inside it."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from energyalign.core.atomic import atomic_write

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 54rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; line-height: 1.2; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .7rem; text-align: right; white-space: nowrap; }
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
class Figure:
    """A PNG file and what it shows."""

    path: Path
    caption: str


def write_page(
    path: Path,
    *,
    title: str,
    command: str,
    paragraphs: Sequence[str],
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    figures: Sequence[Figure],
) -> None:
    """Write the page. All text is escaped; pictures are embedded, so that nothing else is loaded."""
    text = [not all(_is_number(row[k]) for row in rows) for k in range(len(columns))]
    heads = "".join(f'<th scope="col"{_kind(t)}>{escape(name)}</th>' for name, t in zip(columns, text, strict=True))
    body = "\n".join(_table_row(row, text) for row in rows)
    notes = "\n".join(f'<p class="note">{escape(text)}</p>' for text in paragraphs)
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
<div class="wide"><table>
<thead><tr>{heads}</tr></thead>
<tbody>
{body}
</tbody>
</table></div>
{notes}
{"".join(_figure(figure) for figure in figures)}
<p class="note">Made by <code>{escape(command)}</code>.</p>
</body>
</html>
"""
    with atomic_write(path) as stream:
        stream.write(page)


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
