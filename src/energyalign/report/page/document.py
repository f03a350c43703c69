"""The HTML around everything: one file, nothing loaded, no script but ours."""

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
_ONE_COLUMN = 560.0
"""Points: a picture that is wider has text too small to read beside another one."""


@dataclass(frozen=True)
class Section:
    """A part of the page: its title, and HTML that is escaped already."""

    title: str
    html: str


def document(
    title: str, verdict: Sequence[str], live: Sequence[dict[str, Any]], sections: Sequence[Section], *, mark: str = ""
) -> str:
    """The page.

    Parameters
    ----------
    title : str
    verdict : sequence of str
        Sentences at the top.
    live : sequence of dict
        The runs of the live part, each with a name and its views as JSON; without any, there is no live part.
    sections : sequence of Section
    mark : str
        Of a page that is served, and asks its server for one with another mark.
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
<div class="verdict">{"".join(f"<p>{escape(text)}</p>" for text in verdict)}</div>
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
    return (
        f"{head}{body}</main>\n<footer><p class='note'>Made by energyalign.</p></footer>\n{programs}</body>\n</html>\n"
    )


@cache
def asset(name: str) -> str:
    """A file that is part of every page."""
    return files("energyalign.report.page").joinpath("assets", name).read_text(encoding="utf-8")


def _program() -> str:
    """The scripts of the live part, as one that leaves no names behind."""
    return "(() => {\n'use strict';\n" + "\n".join(map(asset, _SCRIPTS)) + "})();\n"


def _policy(scripts: Sequence[str], is_served: bool) -> str:
    """What the browser may do with the page: run these scripts and no others, load nothing from anywhere."""
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
    """JSON that cannot end the element it is in: names in it come from users."""
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
    return cell[:1].isdigit() or cell[:1] in ("-", "+", "<", "")
