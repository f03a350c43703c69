"""Tables, pictures and paragraphs as HTML; all text is escaped here."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from html import escape

_ONE_COLUMN = 560.0
"""Points: a picture that is wider has text too small to read beside another one."""


def table_html(columns: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """Text stands to the left, numbers to the right; the first cell of a line names it."""
    text = [not all(_is_number(row[k]) for row in rows) for k in range(len(columns))]
    heads = "".join(f'<th scope="col"{_kind(t)}>{escape(name)}</th>' for name, t in zip(columns, text, strict=True))
    lines = "\n".join(_line(row, text) for row in rows)
    told = f"<caption>{escape(caption)}</caption>\n" if caption else ""
    return (
        f'<div class="wide"><table>\n{told}<thead><tr>{heads}</tr></thead>\n<tbody>\n{lines}\n</tbody></table></div>\n'
    )


def note_html(text: str) -> str:
    """A paragraph that explains."""
    return f'<p class="note">{escape(text)}</p>\n'


def list_html(items: Sequence[str]) -> str:
    """One below the other."""
    return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in items) + "</ul>\n"


def commands_html(commands: Sequence[str]) -> str:
    """To be copied into a shell."""
    return f"<pre tabindex='0'>{escape(chr(10).join(commands))}</pre>\n"


def picture_html(svg: str, caption: str) -> str:
    """In an image of its own: whatever is in it, it runs no script and shares no names with the page."""
    data = base64.b64encode(svg.encode()).decode()
    told = escape(caption)
    width = re.search(r'<svg [^>]*width="([\d.]+)pt"', svg)
    kind = ' class="across"' if width and float(width[1]) > _ONE_COLUMN else ""
    image = f'<img src="data:image/svg+xml;base64,{data}" alt="{told}">'
    return f"<figure{kind}>{image}<figcaption>{told}</figcaption></figure>\n"


def _line(row: Sequence[str], text: Sequence[bool]) -> str:
    cells = "".join(f"<td{_kind(t)}>{escape(cell)}</td>" for cell, t in zip(row[1:], text[1:], strict=True))
    return f'<tr><th scope="row"{_kind(text[0])}>{escape(row[0])}</th>{cells}</tr>'


def _kind(is_text: bool) -> str:
    return ' class="text"' if is_text else ""


def _is_number(cell: str) -> bool:
    return cell[:1].isdigit() or cell[:1] in ("-", "+", "")
