"""A small table in every format, literally; hostile names; and numbers that can be read back."""

from __future__ import annotations

import csv
import io
import re

import pytest
from rich.console import Console

from energyalign import EnergyAlignError
from energyalign.report.tables import TABLES, Cell, Column, Line, PaperTable
from energyalign.report.tables.formats.terminal import show

SMALL = PaperTable(
    "small",
    "A title, 100%",
    (Column("100", "CIFAR"), Column("50", "CIFAR"), Column("Avg", "mean")),
    (
        Line("ea", "paper", (Cell(45.3, 0.4, best=True), Cell(50.6), Cell())),
        Line("ea", "ours", (Cell(44.04, 1.44, 3, off_paper=True), Cell(51.0, None, 1, best=True), Cell())),
        Line("ea", "difference", (Cell(-1.26, off_paper=True), Cell(0.4), Cell())),
        Line("tau_norm", "paper", (Cell(), Cell(-0.04), Cell())),
        Line("tau_norm", "ours", (Cell(9.0, None, 1, off_paper=True), Cell(), Cell())),
    ),
    ("† not the paper's setting: scale_x is 1.", "The end."),
)


def test_terminal() -> None:
    expected = """\
A title, 100%

                                   CIFAR         mean
 method                              100     50   Avg
 ────────────────────────────────────────────────────
 ea        paper             *45.3 ± 0.4   50.6     -
           ours (1-3 seeds)  †44.0 ± 1.4  *51.0     -
           difference              †-1.3   +0.4     -
 tau_norm  paper                       -    0.0     -
           ours (1 seed)†            9.0      -     -

* best of its column.
† not the paper's setting: scale_x is 1.
The end.
"""
    assert SMALL.render("terminal") == expected


def test_markdown() -> None:
    expected = """\
**A title, 100%**

| method |  | CIFAR, 100 | CIFAR, 50 | mean, Avg |
| :-- | :-- | --: | --: | --: |
| ea | paper | **45.3** ± 0.4 | 50.6 | - |
|  | ours (1-3 seeds) | 44.0 ± 1.4† | **51.0** | - |
|  | difference | -1.3† | +0.4 | - |
| tau\\_norm | paper | - | 0.0 | - |
|  | ours (1 seed)† | 9.0 | - | - |

**Bold**: best of its column.

† not the paper's setting: scale\\_x is 1.

The end.
"""
    assert SMALL.render("markdown") == expected


def test_latex() -> None:
    expected = r"""% needs \usepackage{booktabs}
\begin{table}[t]
\centering\small\setlength{\tabcolsep}{3pt}
\caption{A title, 100\%}
\label{tab:small}
\smallskip
\begin{tabular}{llrrr}
\toprule
 &  & \multicolumn{2}{c}{CIFAR} & \multicolumn{1}{c}{mean} \\
\cmidrule(lr){3-4} \cmidrule(lr){5-5}
method & (seeds) & 100 & 50 & Avg \\
\midrule
ea & paper & \textbf{45.3}$_{\pm 0.4}$ & 50.6 & -- \\
 & ours (1-3) & 44.0$_{\pm 1.4}$$^\dagger$ & \textbf{51.0} & -- \\
 & diff. & $-1.3$$^\dagger$ & $+0.4$ & -- \\
\addlinespace
tau\_norm & paper & -- & 0.0 & -- \\
 & ours (1)$^\dagger$ & 9.0 & -- & -- \\
\bottomrule
\end{tabular}
\par\smallskip{\footnotesize\raggedright \textbf{Bold}: best of its column.\par}
\par\smallskip{\footnotesize\raggedright $^\dagger$ not the paper's setting: scale\_x is 1.\par}
\par\smallskip{\footnotesize\raggedright The end.\par}
\end{table}
"""
    assert SMALL.render("latex") == expected


def test_csv() -> None:
    lines = SMALL.render("csv").splitlines()
    assert lines[:6] == [
        "method,source,group,column,mean,deviation,seeds,best,off_paper",
        "ea,paper,CIFAR,100,45.3,0.4,,True,False",
        "ea,paper,CIFAR,50,50.6,,,False,False",
        "ea,paper,mean,Avg,,,,False,False",
        "ea,ours,CIFAR,100,44.04,1.44,3,False,True",
        "ea,ours,CIFAR,50,51.0,,1,True,False",
    ]
    assert len(lines) == 1 + 5 * 3


def test_csv_of_seeds_has_a_line_for_each() -> None:
    lines = tuple(Line("ce", f"seed {seed}", (Cell(45.12345), Cell()), seed) for seed in (0, 1))
    table = PaperTable("t", "t", (Column("few", "digits"), Column("=x")), lines)
    assert table.render("csv") == 'method,seed,"digits, few",\'=x\nce,0,45.1234,\nce,1,45.1234,\n'


def test_csv_read_back_gives_every_number() -> None:
    read = list(csv.DictReader(io.StringIO(SMALL.render("csv"))))
    cells = [cell for line in SMALL.lines for cell in line.cells]
    for row, cell in zip(read, cells, strict=True):
        assert (float(row["mean"]) if row["mean"] else None) == cell.mean
        assert (float(row["deviation"]) if row["deviation"] else None) == cell.deviation
        assert (int(row["seeds"]) if row["seeds"] else None) == cell.n


def test_an_unknown_format_is_told() -> None:
    with pytest.raises(EnergyAlignError, match="unknown format 'html': choose one of terminal, markdown, latex, csv"):
        SMALL.render("html")


HOSTILE = 'a|b_c*d & 5% \\x {y} $z$ #1 ~ ^ <i> [red]\n\x1b[31m,"'


def hostile(method: str = HOSTILE) -> PaperTable:
    columns = (Column("x|y"), Column("z"))
    return PaperTable("t", method, columns, (Line(method, "ours", (Cell(1.0), Cell(2.0))),), (method,))


def test_names_stay_names_in_markdown() -> None:
    table_lines = [line for line in hostile().render("markdown").splitlines() if line.startswith("| ")]
    assert len(table_lines) == 3
    for line in table_lines:
        assert len(re.findall(r"(?<!\\)\|", line)) == 5  # two names and two numbers
    assert r"a\|b\_c\*d \& 5% \\x" in table_lines[2]
    assert r"\<i\> \[red\]" in table_lines[2]


def test_names_stay_names_in_latex() -> None:
    text = hostile().render("latex")
    expected = (
        r"a\textbar{}b\_c*d \& 5\% \textbackslash{}x \{y\} \$z\$ \#1 \textasciitilde{} \textasciicircum{} "
        r'\textless{}i\textgreater{} {[}red{]}  {[}31m,"'
    )
    assert text.count(expected) == 2  # as title and note
    (line,) = (line for line in text.splitlines() if line.endswith(r"1.0 & 2.0 \\"))
    folded = line.removeprefix(r"\begin{tabular}[t]{@{}l@{}}").partition(r"\end{tabular}")[0]
    assert folded.replace(r"\\", " ").split() == expected.split()


def test_names_stay_names_in_csv() -> None:
    (first, second) = csv.DictReader(io.StringIO(hostile().render("csv")))
    # Printed on a terminal, it emits no control sequences.
    assert first["method"] == second["method"] == HOSTILE.replace("\n", " ").replace("\x1b", " ")
    assert (first["column"], float(second["mean"])) == ("x|y", 2.0)


@pytest.mark.parametrize("begins", ["=", "+", "-", "@", "\t", "\r", " =", "\n@"])
def test_names_are_no_formulas_to_a_spreadsheet(begins: str) -> None:
    (first, _) = csv.DictReader(io.StringIO(hostile(f"{begins}HYPERLINK(x)").render("csv")))
    assert re.fullmatch(r"' ?[=+@-]?HYPERLINK\(x\)", first["method"])
    assert first["mean"] == "1.0"


def test_names_do_not_command_a_terminal() -> None:
    text = hostile("[red]\x1b[31m\nx").render("terminal")
    assert "\x1b" not in text
    assert "[red] [31m x" in text


def test_a_real_terminal_has_bold_and_no_asterisks() -> None:
    stream = io.StringIO()
    show(SMALL, Console(file=stream, width=100, force_terminal=True, color_system="standard", highlight=False))
    text = stream.getvalue()
    assert "\x1b[1m45.3\x1b[0m ± 0.4" in text
    assert "*" not in text


def wide(n_columns: int) -> PaperTable:
    columns = tuple(Column(f"c{k}") for k in range(n_columns))
    return PaperTable("t", "t", columns, (Line("ea", "ours", tuple(Cell(50.0 + k, 1.0, 3) for k in range(n_columns))),))


def test_a_table_that_is_too_wide_is_printed_in_parts_with_every_number() -> None:
    stream = io.StringIO()
    show(wide(20), Console(file=stream, width=60, color_system=None))
    text = stream.getvalue()
    assert max(map(len, text.splitlines())) <= 60
    assert re.findall(r"\d\d\.\d", text.replace("±1.0", "")) == [f"{50 + k}.0" for k in range(20)]
    assert text.count("ours (3 seeds)") == text.count("method") > 1


def test_deviations_go_below_their_means_before_a_table_is_parted() -> None:
    text = wide(10).render("terminal")
    assert text.count("method") == 1
    assert "±1.0" in text
    assert " ± " not in text
    assert "50.0 ± 1.0" in wide(5).render("terminal")


def test_a_narrow_title_has_a_word_in_each_line_and_differences_in_one() -> None:
    titles = ("last step", "B - A")
    columns = tuple(Column(title) for title in (*titles, *"abcdefgh"))
    line = Line("ea", "ours", tuple(Cell(50.0, 1.0, 3) for _ in columns))
    head = PaperTable("t", "t", columns, (line,)).render("terminal").splitlines()[2:4]
    assert [line.split() for line in head] == [["last"], ["method", "step", "B", "-", "A", *"abcdefgh"]]


@pytest.mark.parametrize("name", [name for name, entry in TABLES.items() if entry.cells])
def test_every_table_of_the_paper_is_whole_in_every_format(name: str) -> None:
    table = TABLES[name].make([])
    printed = [f"{cell.mean:.1f}" for line in table.lines for cell in line.cells if cell.mean is not None]
    assert printed
    plain = table.render("terminal")
    assert max(map(len, plain.splitlines())) <= 100
    # Stacked blocks have another order, but the same numbers.
    body = plain.partition("─\n")[2].partition("* best")[0]
    assert sorted(re.findall(r"(?<!±)(?<![\w-])\d+\.\d", body)) == sorted(printed)
    latex = table.render("latex")
    (layout,) = set(re.findall(r"\\begin\{tabular\}\{(l+r+)\}", latex))
    for line in latex.splitlines():
        if line.endswith(r"\\"):
            spans = sum(int(span) - 1 for span in re.findall(r"\\multicolumn\{(\d+)\}", line))
            assert line.count("&") + 1 + spans == len(layout)
    assert latex.count("{") == latex.count("}")
    rows = [line for line in table.render("markdown").splitlines() if line.startswith("|")]
    assert len({row.count("|") for row in rows}) == 1
    assert len(rows) == 2 + len(table.lines)
