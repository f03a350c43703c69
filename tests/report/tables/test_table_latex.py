"""LaTeX tables fit the page of an article: their widths are computed again from font metrics."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from table_rows import long_tail_row, step_rows

from energyalign.experiments.engine.row import Row
from energyalign.report.tables import TABLES, Cell, Column, Line, PaperTable
from energyalign.report.tables.formats.latex_text import escaped, text, width_of

# cmr9.tfm, in thousandths of 9 points.
CMR9 = {
    285: "il[],.:;!'", 314: "fj", 343: "- ", 371: "I", 400: "t()", 402: "r", 405: "s", 457: "cez",
    514: "0123456789ago/*†", 528: "J", 542: "kqvxy", 571: "bdhnpuS", 628: "Z", 642: "L", 671: "F", 699: "EP",
    728: "B", 742: "wCT", 756: "R", 771: "AHNUVXY", 785: "D", 799: "KOQ+=@", 806: "G", 856: "m", 942: "M", 1056: "W",
}  # fmt: skip
POINTS = {character: 0.009 * width for width, characters in CMR9.items() for character in characters}


def measured(words: str) -> float:
    return sum(POINTS[character] for character in words)


def cell_width(tex: str) -> float:
    """Return the width of a cell in \\small, as TeX sets it."""
    if r"\begin{tabular}" in tex:
        (body,) = re.findall(r"\{@\{\}.@\{\}\}(.*)\\end\{tabular\}", tex)
        return max(map(cell_width, body.split(r"\\")))
    spread = re.search(r"\$_\{\\pm ([\d.]+)\}\$", tex)
    number = re.sub(r"\$_\{\\pm [\d.]+\}\$", "", tex)
    bold = 1.151 if r"\textbf" in number else 1.0  # cmbx9 digits: 5.325 points
    signs = 7.2 * len(re.findall(r"\$[+-]", number))
    plain = re.sub(
        r"\\textbf|\\multicolumn\{\d+\}\{c\}|[${}\\_]|\^|(?<=\$)[+-]", "", number.replace(r"$^\dagger$", "†")
    )
    below = 6.28 + 3.67 * (len(spread[1]) - 1) + 2.0 if spread else 0.0  # cmsy6, cmr6 and its point
    return bold * measured(plain) + signs + below


def check_width(latex: str) -> None:
    """Check that tabulars are at most 345 points wide: \\textwidth of article at 10pt."""
    scale = 1.0 if r"\small\setlength" in latex else 0.92
    for tabular in re.findall(r"\\toprule\n(.*?)\\bottomrule", latex, flags=re.DOTALL):
        rows = [line[: -len(r" \\")].split(" & ") for line in tabular.splitlines() if line.endswith(r" \\")]
        n = max(map(len, rows))
        single = [row for row in rows if not any("multicolumn" in cell for cell in row)]
        widths = [max(cell_width(row[k]) for row in single) for k in range(n)]
        for row in rows:
            place = 0
            for cell in row:
                span = int((re.findall(r"multicolumn\{(\d+)\}", cell) or ["1"])[0])
                inside = sum(widths[place : place + span]) + 6 * (span - 1)
                widths[place + span - 1] += max(0.0, cell_width(cell) - inside)
                place += span
        assert sum(widths) * scale + 6 * n <= 345


def long_tail(cell: str, n_seeds: int = 3, **more: object) -> list[Row]:
    methods = ("ce", "focal", "ldam-drw", "crt", "tau-norm", "la-post-hoc", "la-loss", "ea")
    return [
        long_tail_row(name, cell, 0.4 + 0.01 * k + 0.1 * seed * (-1) ** k, seed=seed, epochs=7, nll=1.3 + 0.1 * seed,
                      ece=0.2 + 0.01 * seed, brier=0.4, macro_f1=0.5, **more)
        for k, name in enumerate(methods) for seed in range(n_seeds)
    ]  # fmt: skip


def in_steps(cell: str, n_steps: int) -> list[Row]:
    rows = [
        row
        for k, name in enumerate(("ea", "distill", "wa", "bic"))
        for seed in range(3)
        for row in step_rows(
            name, cell, [0.9 - 0.4 * i / n_steps + 0.01 * k * seed for i in range(n_steps)], seed=seed, epochs=5
        )
    ]
    return rows + [replace(row, corrector="raw", evidence=None) for row in rows if row.learner == "distill"]


TABLES_OF_ROWS: dict[str, tuple[str, list[Row]]] = {
    "the paper's, ours beside": ("cifar-lt", long_tail("cifar100-lt-100") + long_tail("cifar10-lt-50")),
    "two networks": ("imagenet-lt", long_tail("imagenet-lt-resnet50") + long_tail("imagenet-lt-resnext50")),
    "ten steps": ("cifar100-il-10", in_steps("cifar100-il-10", 10)),
    "twenty steps": ("cifar100-il-20", in_steps("cifar100-il-20", 20)),
    "a long tail": ("longtail", long_tail("cifar100-lt-100")),
    "a test set that is not balanced": ("longtail", long_tail("cifar100-lt-100", test_counts=(9, 1))),
    "three data sets": (
        "longtail",
        [row for cell in ("cifar100-lt-100", "cifar10-lt-50", "digits-lt-50") for row in long_tail(cell)],
    ),
    "calibration": ("metrics", long_tail("cifar100-lt-100")),
    "long names": ("incremental", in_steps("cifar100-il-10", 10)),
    "every step": ("steps", in_steps("cifar100-il-20", 20)),
    "trainings in steps": ("matrix", in_steps("cifar100-il-10", 10) + in_steps("digits-il-5", 5)),
}


@pytest.mark.parametrize(("name", "rows"), TABLES_OF_ROWS.values(), ids=TABLES_OF_ROWS)
def test_tables_of_runs_fit_the_page(name: str, rows: list[Row]) -> None:
    table = TABLES[name].make(rows)
    latex = table.render("latex")
    check_width(latex)
    numbers = sum(cell.mean is not None for line in table.lines for cell in line.cells)
    cells = [cell for line in latex.splitlines() if re.search(r" & .* \\\\$", line) for cell in line[:-3].split(" & ")]
    printed = [cell for cell in cells if re.match(r"(\\textbf\{)?\$?[+-]?\d+(\.\d+|(?=$))", cell)]
    heads = [column for column in table.columns if column.title.isdecimal()]
    assert len(printed) >= numbers
    assert heads or len(printed) == numbers


@pytest.mark.parametrize("name", [name for name, entry in TABLES.items() if entry.cells])
def test_tables_of_the_paper_fit_the_page(name: str) -> None:
    check_width(TABLES[name].make([]).render("latex"))


def test_any_names_and_columns_fit_the_page() -> None:
    columns = tuple(Column("W" * 40 + f" {k}", "M-" * 40) for k in range(7))
    lines = tuple(Line("W" * 90 + f" {k}", "ours", (Cell(100.0, 10.5, 3),) * 7) for k in range(3))
    check_width(PaperTable("t", "t", columns, lines).render("latex"))


def test_a_table_longer_than_a_page_goes_on_in_another() -> None:
    lines = tuple(
        Line(f"m{k}", source, (Cell(50.0 + k),)) for k in range(20) for source in ("paper", "ours", "difference")
    )
    latex = PaperTable("t", "Title", (Column("a"),), lines, ("A note.",)).render("latex")
    assert latex.count(r"\begin{table}") == 2
    assert latex.count("(continued)") == latex.count(r"\addtocounter{table}{-1}") == latex.count("A note.") == 1
    assert latex.count(r"\label{tab:t}") == 1
    assert re.findall(r"^m(\d+) & paper", latex, flags=re.MULTILINE) == [f"{k}" for k in range(20)]
    for page in latex.split(r"\end{table}")[:2]:
        assert page.count(r" \\") * 11 + 5 * page.count(r"\addlinespace") < 550


def test_widths_are_upper_bounds() -> None:
    for character, points in POINTS.items():
        assert points <= width_of(character) <= points + 1.7


def test_words_are_folded_at_spaces_then_hyphens_then_anywhere() -> None:
    assert text("paper, top-5", 50).tex == r"\begin{tabular}[t]{@{}l@{}}paper,\\top-5\end{tabular}"
    assert text("logit-adjustment", 60, place="br").tex == r"\begin{tabular}[b]{@{}r@{}}logit-\\adjustment\end{tabular}"
    broken = text("a" * 30 + "_", 100)
    assert broken.width <= 100
    assert broken.tex.count("a") - "tabular tabular".count("a") == 30
    assert broken.n_lines == 2
    assert text("some words", 100).tex == "some words"
    assert escaped("50% [a]") == r"50\% {[}a{]}"
