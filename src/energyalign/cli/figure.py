"""`energyalign figure`: pictures of stored runs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from energyalign.cli.table import add_where_option
from energyalign.report.figures import FIGURES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from energyalign.experiments.engine.stored import StoredRun
    from energyalign.report.drawing import Style

_ALL = "all"
DESCRIPTION = (
    "Draw a figure from the rows and stored logits of run directories; runs that differ in the seed "
    "alone are shown as mean and standard deviation."
)
EXAMPLES = """\
examples:
  energyalign figure energies runs/digits-lt-50                         writes energies.png
  energyalign figure steps runs/digits-il-5 --out steps.pdf             or .svg
  energyalign figure heads runs/digits-lt-50/ce runs/digits-lt-50/ce-linear
  energyalign figure groups runs/digits-lt-50 --width column --title "" --out groups.pdf      for a paper
  energyalign figure steps runs/digits-il-5 --rows raw "ea*" --where seed=0 seed=1
  energyalign figure all runs/digits-lt-50 --out figures                every figure that these runs allow

figures:
""" + "\n".join(f"  {name:<18} {entry.description}" for name, entry in FIGURES.items())


def add_options(parser: argparse.ArgumentParser) -> None:
    """Of the command."""
    add = parser.add_argument
    add("name", metavar="NAME", help="one of the figures below, or all")
    add("runs", metavar="RUN", nargs="+", help="run directories, or folders with some in them")
    add("--out", metavar="FILE", help="a .png, .svg or .pdf file (default: NAME.png); for all a folder (default: "
        "figures)")  # fmt: skip
    add(
        "--rows", nargs="+", action="extend", default=[], metavar="NAME",
        help="correctors or methods to show, such as raw ea; a name may have a * (default: all)",
    )  # fmt: skip
    add_where_option(parser)
    add(
        "--width", metavar="INCHES",
        help="of the figure, or column or page: 3.25 and 6.75 inches, as in papers with two columns (default: as wide "
        "as its panels need)",
    )  # fmt: skip
    add("--font-size", type=float, metavar="POINTS", help="default: 9, with --width 8")
    add("--title", metavar="TEXT", help='instead of the title that says what is shown; "" for none')


def run(arguments: argparse.Namespace) -> None:
    """Read, draw, write."""
    from energyalign.report.drawing import Style

    style = Style.make(arguments.width, arguments.font_size, arguments.title)
    if arguments.name == _ALL:
        _draw_all(Path(arguments.out or "figures"), arguments, style)
    else:
        _draw_one(arguments.name, Path(arguments.out or f"{arguments.name}.png"), arguments, style)


def _draw_one(name: str, path: Path, arguments: argparse.Namespace, style: Style) -> None:
    from energyalign.core._io.atomic import check_outputs
    from energyalign.experiments.engine.config import look_up
    from energyalign.experiments.train.run_directory import run_files
    from energyalign.report.drawing import check_suffix, save_figure

    entry = look_up(FIGURES, name, "figure")
    check_suffix(path)
    check_outputs([path], run_files(arguments.runs))
    save_figure(entry.draw(_read(arguments), style), path)
    print(f"Wrote {path}.")


def _draw_all(folder: Path, arguments: argparse.Namespace, style: Style) -> None:
    from energyalign.core._io.atomic import check_outputs
    from energyalign.core.errors import EnergyAlignError
    from energyalign.experiments.train.run_directory import run_files
    from energyalign.report.drawing import save_figure

    if folder.suffix in (".png", ".svg", ".pdf"):
        raise EnergyAlignError(f"{folder}: for all figures --out is a folder, not a file.")
    runs = _read(arguments)
    if len({run.in_steps for run in runs}) > 1:
        raise EnergyAlignError(
            "a figure is of long-tailed or of incremental runs, not of both: give the folders of one kind."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnergyAlignError(f"cannot make the folder {folder}: {error.strerror}. Choose another --out.") from error
    check_outputs([folder / f"{name}.png" for name in FIGURES], run_files(arguments.runs))
    for name, entry in FIGURES.items():
        try:
            figure = entry.draw(runs, style)
        except EnergyAlignError as error:
            print(f"Left out: {error}")
            continue
        save_figure(figure, folder / f"{name}.png")
        print(f"Wrote {folder / f'{name}.png'}.")


def _read(arguments: argparse.Namespace) -> Sequence[StoredRun]:
    """The runs that were measured, with the rows that were asked for; a warning for each run without rows."""
    from energyalign.experiments.engine.stored import find_runs, measured_runs
    from energyalign.report.selection import parse_where, select_named, select_runs

    for run in find_runs(arguments.runs):
        if not run.rows:
            print(f"warning: {run.path} has no rows yet and is left out.", file=sys.stderr)
    chosen = select_runs(measured_runs(arguments.runs), parse_where(arguments.where))
    return select_named(chosen, arguments.rows)
