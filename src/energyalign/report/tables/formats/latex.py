"""Tables as LaTeX with booktabs, no wider than a page of the article class."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from energyalign.report.tables.best import about_best
from energyalign.report.tables.formats.latex_text import Text, escaped, subscript_width, text, width_of
from energyalign.report.tables.model import DIFFERENCE, OURS, Cell, Column, Line, PaperTable

MISSING = "--"
TEXT_WIDTH, TEXT_HEIGHT = 345.0, 550.0
"""Size of the text in points, for article at 10pt on letter paper; A4 has the same width and more height."""
_CAPTION, _LINE, _RULES, _SPACE = 40.0, 11.0, 15.0, 5.0
"""Heights in points: a caption of two lines, a line, all rules of a block, and the space between methods."""
_SEPARATION = 3.0
_MAX_NAME, _MAX_HEAD = 110.0, 52.0
"""Widths in points; wider names and heads are folded if the table is too wide."""
_SHORT = {DIFFERENCE: "diff."}
_Part = tuple[Sequence[int], Sequence[tuple[str, Line]]]
"""Columns, and lines with the names to print."""


@dataclass(frozen=True)
class _Layout:
    """How a table is typeset.

    Attributes
    ----------
    blocks : list of list of int
        Columns of each block; blocks are stacked.
    folded : bool, default True
        Whether long names and heads are folded into several lines.
    small : bool, default True
        Whether the font is \\small instead of \\footnotesize.
    """

    blocks: list[list[int]]
    folded: bool = True
    small: bool = True


def to_latex(table: PaperTable) -> str:
    """Return a table environment, or several if the table is longer than a page.

    A table that is too wide is folded, set smaller, or split into stacked blocks.
    """
    layout = next(layout for layout in _layouts(table) if _width(table, layout) <= TEXT_WIDTH)
    rule = about_best(table)
    notes = [rf"\textbf{{Bold}}: {escaped(rule)}"] * bool(rule) + [*map(escaped, table.notes)]
    pages = _pages(table, layout, TEXT_HEIGHT - _CAPTION - sum(map(_note_height, notes)))
    floats = []
    for number, page in enumerate(pages):
        title = escaped(table.title) + (" (continued)" if number else "")
        floats += [
            r"\begin{table}[t]",
            rf"\centering\{'small' if layout.small else 'footnotesize'}\setlength{{\tabcolsep}}{{{_SEPARATION:g}pt}}",
            *([r"\addtocounter{table}{-1}"] if number else []),
            rf"\caption{{{title}}}",
            *([] if number else [rf"\label{{tab:{table.name}}}"]),
            r"\smallskip",
            *_tabular(table, layout, page),
            *(rf"\par\smallskip{{\footnotesize\raggedright {note}\par}}" for note in notes if page is pages[-1]),
            r"\end{table}",
        ]
    return "\n".join([r"% needs \usepackage{booktabs}", *floats, ""])


def _pages(table: PaperTable, layout: _Layout, room: float) -> list[list[_Part]]:
    """Distribute blocks over pages; blocks longer than a page are split between methods."""
    methods = [list(lines) for _, lines in groupby(table.named_lines, key=lambda named: named[1].method)]
    pages: list[list[_Part]] = [[]]
    left = room
    for block in layout.blocks:
        heads = _heads_height(table, block, layout)
        parts: list[tuple[float, list[tuple[str, Line]]]] = [(heads, [])]
        for method in methods:
            height = _lines_height(method, layout)
            if parts[-1][1] and parts[-1][0] + height > room:
                parts.append((heads, []))
            parts[-1] = (parts[-1][0] + height, [*parts[-1][1], *method])
        for height, lines in parts:
            if height > left and pages[-1]:
                pages.append([])
                left = room
            pages[-1].append((block, lines))
            left -= height
    return pages


def _heads_height(table: PaperTable, block: Sequence[int], layout: _Layout) -> float:
    """Return the height of the heads of columns and groups, with their rules, in points."""
    heads = max(_head(table.columns[k], layout).n_lines for k in block)
    groups = [_group(name, layout, len(members)).n_lines for name, members in _groups_in(table, block) if name]
    return _LINE * (heads + max(groups, default=0)) + _RULES


def _lines_height(lines: Sequence[tuple[str, Line]], layout: _Layout) -> float:
    """Return the height of a method's lines, with the space before them if there are several."""
    rows = sum(_name(name, layout).n_lines for name, _ in lines)
    return _LINE * rows + (_SPACE if len(lines) > 1 else 0.0)


def _note_height(note: str) -> float:
    return 4 + 9.5 * math.ceil(width_of(note) / TEXT_WIDTH)


def _tabular(table: PaperTable, layout: _Layout, page: Sequence[_Part]) -> list[str]:
    n_numbers = max(map(len, layout.blocks))
    body = [r"\toprule"]
    for number, (block, lines) in enumerate(page):
        body += [r"\midrule"] if number else []
        body += _block(table, block, lines, layout, n_numbers)
    names = "l" * (1 + table.has_sources)
    return [rf"\begin{{tabular}}{{{names}{'r' * n_numbers}}}", *body, r"\bottomrule", r"\end{tabular}"]


def _layouts(table: PaperTable) -> Iterator[_Layout]:
    """Yield layouts from the simplest to blocks of one column, which always fit."""
    everything = list(range(len(table.columns)))
    yield _Layout([everything], folded=False)
    yield _Layout([everything])
    yield _Layout([everything], small=False)
    groups = [members for _, members in table.groups] if table.stacked else [everything]
    for most in range(max(map(len, groups)), 0, -1):
        blocks = [part for members in groups for part in _even_parts(members, most)]
        yield _Layout(blocks)
        yield _Layout(blocks, small=False)


def _even_parts(members: Sequence[int], most: int) -> list[list[int]]:
    """Split into parts of at most `most` neighbours, of equal size if possible."""
    size = math.ceil(len(members) / math.ceil(len(members) / most))
    return [list(members[start : start + size]) for start in range(0, len(members), size)]


def _width(table: PaperTable, layout: _Layout) -> float:
    """Return an upper bound of the width in points."""
    names = [_name(line.method, layout).width for line in table.lines]
    sources = [_source(line).width for line in table.lines] if table.has_sources else []
    numbers = [0.0] * max(map(len, layout.blocks))
    for block in layout.blocks:
        for place, k in enumerate(block):
            cells = [_cell(line.cells[k], line, table.columns[k]).width for line in table.lines]
            numbers[place] = max([numbers[place], _head(table.columns[k], layout).width, *cells])
    for block in layout.blocks:
        for title, members in _groups_in(table, block):
            places = [block.index(k) for k in members]
            room = sum(numbers[place] for place in places) + 2 * _SEPARATION * (len(places) - 1)
            numbers[places[-1]] += max(0.0, _group(title, layout, len(members)).width - room)
    widths = [max(names, default=0.0), *([max(sources)] if sources else []), *numbers]
    return sum(widths) * (1.0 if layout.small else 0.95) + 2 * _SEPARATION * len(widths)


def _block(
    table: PaperTable, block: Sequence[int], named: Sequence[tuple[str, Line]], layout: _Layout, n_numbers: int
) -> list[str]:
    """Return heads and lines of these columns, padded to the number of columns of the widest block."""
    filling = [""] * (n_numbers - len(block))
    seeds = "(seeds)" if any(line.source == OURS for line in table.lines) else ""
    names = [escaped(table.corner), *([seeds] if table.has_sources else [])]
    heads = [_head(table.columns[k], layout).tex for k in block]
    lines = [*_group_heads(table, block, layout, filling), _row([*names, *heads, *filling]), r"\midrule"]
    for number, (name, line) in enumerate(named):
        if name and number and len({line.source for line in table.lines}) > 1:
            lines.append(r"\addlinespace")
        begin = [_name(name, layout).tex, *([_source(line).tex] if table.has_sources else [])]
        lines.append(_row([*begin, *(_cell(line.cells[k], line, table.columns[k]).tex for k in block), *filling]))
    return lines


def _group_heads(table: PaperTable, block: Sequence[int], layout: _Layout, filling: Sequence[str]) -> list[str]:
    """Return a line with the groups of these columns and the rules below it; empty without groups."""
    groups = _groups_in(table, block)
    if not any(name for name, _ in groups):
        return []
    column = 2 + table.has_sources
    cells, rules = [""] * (column - 1), []
    for name, members in groups:
        cells.append(rf"\multicolumn{{{len(members)}}}{{c}}{{{_group(name, layout, len(members)).tex}}}")
        rules.append(rf"\cmidrule(lr){{{column}-{column + len(members) - 1}}}")
        column += len(members)
    return [_row([*cells, *filling]), " ".join(rules)]


def _groups_in(table: PaperTable, block: Sequence[int]) -> list[tuple[str, list[int]]]:
    groups = [(name, [k for k in members if k in block]) for name, members in table.groups]
    return [(name, members) for name, members in groups if members]


def _row(cells: Sequence[str]) -> str:
    return rf"{' & '.join(cells)} \\"


def _name(name: str, layout: _Layout) -> Text:
    return text(name, _MAX_NAME if layout.folded else math.inf)


def _head(column: Column, layout: _Layout) -> Text:
    return text(_SHORT.get(column.title, column.title), _MAX_HEAD if layout.folded else math.inf, place="br")


def _group(name: str, layout: _Layout, n_columns: int) -> Text:
    return text(name, max(_MAX_HEAD, 30.0 * n_columns) if layout.folded else math.inf, place="bc")


def _source(line: Line) -> Text:
    """Return the source of a line, with the number of seeds if it is ours."""
    words = _SHORT.get(line.source, line.source)
    if line.source == OURS:
        words = line.source_and_seeds.replace("seeds", "").replace("seed", "").replace(" )", ")")
    return text(words + line.mark, math.inf)


def _cell(cell: Cell, line: Line, column: Column) -> Text:
    if cell.mean is None:
        return Text(MISSING, width_of("0"))
    number = line.number(cell, column)
    mark = line.mark_of(cell)
    width = width_of(number, bold=cell.best) + width_of(mark) + (subscript_width(cell.spread) if cell.spread else 0.0)
    if number[0] in "+-":  # a minus, not a hyphen
        number, width = f"${number}$", width + 4
    number = rf"\textbf{{{number}}}" if cell.best else number
    return Text(number + (rf"$_{{\pm {cell.spread}}}$" if cell.spread else "") + escaped(mark), width)
