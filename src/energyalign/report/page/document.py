"""The HTML document: one file that loads nothing and runs no script but ours."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

_SCRIPTS = ("numbers.js", "decode.js", "model.js", "shifts_file.js", "charts.js", "class_table.js", "controls.js")
_MAX_COLUMN_WIDTH = 450.0
"""Maximum width in points of a picture in half a row. A wider one gets a whole row, so that its text stays readable."""
_MAX_ROWS = 25
"""Maximum rows of a table without a scroll bar."""


@dataclass(frozen=True)
class Section:
    """A section of the page; its HTML is escaped already."""

    title: str
    html: str


def document(
    title: str, results: Sequence[tuple[str, str]], live: Sequence[dict[str, Any]], sections: Sequence[Section], *,
    mark: str = "",
) -> str:  # fmt: skip
    """Return the page as HTML.

    Parameters
    ----------
    title : str
    results : sequence of (str, str)
        Headlines at the top of the page, each with its details.
    live : sequence of dict
        The runs of the live part, each with a name and its views as JSON. If empty, there is no live part.
    sections : sequence of Section
    mark : str, default ""
        State of a served page; the page reloads itself when the server reports another state.
    """
    scripts = [asset("echarts.min.js"), _program()] if live else []
    scripts += [asset("refresh.js")] if mark else []
    head = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_policy(scripts, bool(mark))}">
<meta name="viewport" content="width=device-width, initial-scale=1">
{f'<meta name="energyalign-state" content="{escape(mark)}">' if mark else ""}
<title>{escape(title)}</title>
<style>{asset("page.css")}</style>
</head>
<body>
<header>
<h1>{escape(title)}</h1>
<div class="results">{"".join(map(_result, results))}</div>
{_contents(sections, bool(live))}
</header>
<main>
"""
    data = f'<script type="application/json" id="data">{_script_json(live)}</script>\n' if live else ""
    body = (asset("live.html") + data if live else "") + "".join(
        f'<section aria-labelledby="{name}">\n<h2 id="{name}">{escape(section.title)}</h2>\n{section.html}</section>\n'
        for name, section in _named(sections)
    )
    programs = "".join(f"<script>{script}</script>\n" for script in scripts)
    page = (
        f"{head}{body}</main>\n<footer><p class='note'>Made by energyalign.</p></footer>\n{programs}</body>\n</html>\n"
    )
    return page.encode(errors="backslashreplace").decode()  # names of folders may be no valid text


def _result(result: tuple[str, str]) -> str:
    headline, details = map(escape, result)
    return f'<p class="result">{headline}</p>' + (f"<p>{details}</p>" if details else "")


@cache
def asset(name: str) -> str:
    """Return the text of a file in assets/."""
    return files("energyalign.report.page").joinpath("assets", name).read_text(encoding="utf-8")


def _program() -> str:
    """Join the scripts of the live part in a function, so that they define no global names."""
    return "(() => {\n'use strict';\n" + "\n".join(map(asset, _SCRIPTS)) + "})();\n"


def _policy(scripts: Sequence[str], is_served: bool) -> str:
    """Return the Content-Security-Policy: run these scripts and no others, load nothing."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in scripts
    )
    allowed = hashes or "'none'"
    asks = "connect-src 'self'; " if is_served else ""
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; {asks}"
        "base-uri 'none'; form-action 'none'"
    )


def _script_json(value: Any) -> str:
    """Return JSON that cannot close its <script> element, whatever names users have given."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _named(sections: Sequence[Section]) -> list[tuple[str, Section]]:
    return [(f"part-{number}", section) for number, section in enumerate(sections, 1)]


def _contents(sections: Sequence[Section], has_live: bool) -> str:
    links = [("live-title", "Try it")] if has_live else []
    links += [(name, section.title) for name, section in _named(sections)]
    items = "".join(f'<li><a href="#{name}">{escape(text)}</a></li>' for name, text in links)
    return f'<nav aria-label="Contents"><ul>{items}</ul></nav>'


def table_html(columns: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """Return a table; text is aligned left, numbers right, and the first cell of a row is its header."""
    text = [k == 0 or not all(_is_number(row[k]) for row in rows) for k in range(len(columns))]
    heads = "".join(f'<th scope="col"{_kind(t)}>{escape(name)}</th>' for name, t in zip(columns, text, strict=True))
    lines = "\n".join(_line(row, text) for row in rows)
    # Outside the box that scrolls: the caption stays readable on a phone.
    above = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    box = 'class="wide scroll" tabindex="0"' if len(rows) > _MAX_ROWS else 'class="wide"'
    return (
        f"<figure>{above}<div {box}><table>\n<thead><tr>{heads}</tr></thead>\n"
        f"<tbody>\n{lines}\n</tbody></table></div></figure>\n"
    )


def note_html(text: str) -> str:
    """Return a paragraph in small type."""
    return f'<p class="note">{escape(text)}</p>\n'


def list_html(items: Sequence[str]) -> str:
    """Return a bulleted list."""
    return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in items) + "</ul>\n"


def commands_html(commands: Sequence[str]) -> str:
    """Return shell commands, one per line."""
    return f"<pre tabindex='0'>{escape(chr(10).join(commands))}</pre>\n"


def picture_html(svg: str, caption: str) -> str:
    """Return a figure whose SVG is in an <img>: it runs no script and shares no names with the page."""
    data = base64.b64encode(svg.encode()).decode()
    text = escape(caption)
    width = re.search(r'<svg [^>]*width="([\d.]+)pt"', svg)
    kind = ' class="across"' if width and float(width[1]) > _MAX_COLUMN_WIDTH else ""
    image = f'<img src="data:image/svg+xml;base64,{data}" alt="{text}">'
    return f"<figure{kind}>{image}<figcaption>{text}</figcaption></figure>\n"


def _line(row: Sequence[str], text: Sequence[bool]) -> str:
    cells = "".join(f"<td{_kind(t)}>{escape(cell)}</td>" for cell, t in zip(row[1:], text[1:], strict=True))
    return f'<tr><th scope="row"{_kind(text[0])}>{escape(row[0])}</th>{cells}</tr>'


def _kind(is_text: bool) -> str:
    return ' class="text"' if is_text else ""


def _is_number(cell: str) -> bool:
    return cell[:1].isdigit() or cell[:1] in ("-", "+", "<", "")
