"""Tables as LaTeX, with the rules of the booktabs package."""

from __future__ import annotations

from collections.abc import Sequence

from energyalign.report.tables.model import Cell, Column, Line, PaperTable, one_line

MISSING = "--"
_ESCAPES = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "†": r"$^\dagger$", "±": r"$\pm$",
    "[": "{[}", "]": "{]}",  # at the beginning of a line they would be an option of the line break before
}  # fmt: skip


def to_latex(table: PaperTable) -> str:
    """A table environment; groups stand below each other in one tabular where the table says so."""
    blocks = [indices for _, indices in table.groups] if table.stacked else [list(range(len(table.columns)))]
    n_names, n_numbers = 1 + table.has_sources, max(map(len, blocks))
    body = [r"\toprule"]
    for number, block in enumerate(blocks):
        body += [r"\midrule"] if number else []
        body += _block(table, block, n_names, n_numbers)
    return "\n".join(
        [
            r"% needs \usepackage{booktabs}",
            r"\begin{table}[t]",
            r"\centering\small\setlength{\tabcolsep}{3pt}",
            rf"\caption{{{escaped(table.title)}}}",
            rf"\label{{tab:{table.name}}}",
            rf"\begin{{tabular}}{{{'l' * n_names}{'r' * n_numbers}}}",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            *(rf"\par\smallskip{{\footnotesize\raggedright {escaped(note)}\par}}" for note in table.notes),
            r"\end{table}",
            "",
        ]
    )


def escaped(text: str) -> str:
    """Text that is set as it is."""
    return "".join(_ESCAPES.get(character, character) for character in one_line(text))


def _block(table: PaperTable, block: Sequence[int], n_names: int, n_numbers: int) -> list[str]:
    """Heads and lines of these columns, filled up to the width of the widest block."""
    filling = [""] * (n_numbers - len(block))
    names = [escaped(table.corner), *[""] * (n_names - 1)]
    heads = [escaped(table.columns[k].title) for k in block]
    lines = [*_group_heads(table, block, n_names, n_numbers), _row([*names, *heads, *filling]), r"\midrule"]
    for name, line in table.named_lines:
        if name and line is not table.lines[0] and len({line.source for line in table.lines}) > 1:
            lines.append(r"\addlinespace")
        named = [escaped(name)]
        if table.has_sources:
            named.append(escaped(line.source_and_seeds + line.mark))
        lines.append(_row([*named, *(_cell(line.cells[k], line, table.columns[k]) for k in block), *filling]))
    return lines


def _group_heads(table: PaperTable, block: Sequence[int], n_names: int, n_numbers: int) -> list[str]:
    """A line with the groups of these columns, and rules below them; nothing if there are none."""
    groups = [(name, [k for k in members if k in block]) for name, members in table.groups]
    groups = [(name, members) for name, members in groups if members]
    if not any(name for name, _ in groups):
        return []
    cells, rules, column = [""] * n_names, [], n_names + 1
    for name, members in groups:
        cells.append(rf"\multicolumn{{{len(members)}}}{{c}}{{{escaped(name)}}}")
        rules.append(rf"\cmidrule(lr){{{column}-{column + len(members) - 1}}}")
        column += len(members)
    return [_row([*cells, *[""] * (n_numbers - len(block))]), " ".join(rules)]


def _row(cells: Sequence[str]) -> str:
    return rf"{' & '.join(cells)} \\"


def _cell(cell: Cell, line: Line, column: Column) -> str:
    if cell.mean is None:
        return MISSING
    number = line.number(cell, column)
    if number[0] in "+-":  # a minus, not a hyphen
        number = f"${number}$"
    number = rf"\textbf{{{number}}}" if cell.best else number
    return number + (rf"$_{{\pm {cell.spread}}}$" if cell.spread else "") + escaped(line.mark_of(cell))
