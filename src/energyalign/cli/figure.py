"""`energyalign figure`: draw figures from stored runs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from energyalign.cli.table import add_where_option
from energyalign.core.errors import EnergyAlignError
from energyalign.report.figures import FIGURES, MissingRowsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from energyalign.experiments.engine.stored import StoredRun
    from energyalign.report.drawing import Style
    from energyalign.report.figures import FigureEntry

_ALL = "all"
DESCRIPTION = (
    "Draw a figure from the rows and stored logits of run directories. Runs that differ only in the seed are shown as "
    "mean and standard deviation."
)
EXAMPLES = """\
examples:
  energyalign figure energies runs/digits-lt-50                         writes energies.png
  energyalign figure steps runs/digits-il-5 --out steps.pdf             or .svg
  energyalign figure heads runs/digits-lt-50/ce runs/digits-lt-50/ce-linear
  energyalign figure groups runs/digits-lt-50 --width column --title "" --out groups.pdf      for a paper
  energyalign figure steps runs/digits-il-5 --rows raw "ea*" --where seed=0 seed=1
  energyalign figure all runs/digits-lt-50 --out figures                every figure these runs allow

figures:
""" + "\n".join(f"  {name:<18} {entry.description}" for name, entry in FIGURES.items())


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add = parser.add_argument
    add("name", metavar="NAME", help="one of the figures below, or all")
    add("runs", metavar="RUN", nargs="+", help="run directories, or folders that contain some")
    add("--out", metavar="FILE",
        help="a .png, .svg or .pdf file (default: NAME.png); a folder if NAME is all (default: figures)")  # fmt: skip
    add("--rows", nargs="+", action="extend", default=[], metavar="NAME",
        help="correctors or methods to show, such as raw ea; * matches any text (default: all)")  # fmt: skip
    add_where_option(parser)
    add("--width", metavar="INCHES",
        help="width of the figure; column (3.25 inches) or page (6.75 inches) fit two-column papers (default: as wide "
        "as its panels need)")  # fmt: skip
    add("--font-size", type=float, metavar="POINTS", help="font size (default: 9; 8 with --width)")
    add("--title", metavar="TEXT", help='title of the figure; "" for none (default: what it shows)')


def run(arguments: argparse.Namespace) -> None:
    """Read the rows, draw the figures, write the files."""
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
    try:
        figure = entry.draw(_read(arguments), style)
    except MissingRowsError as error:
        raise EnergyAlignError(_explain(error, entry, arguments)) from error
    save_figure(figure, path)
    print(f"Wrote {path}.")


def _draw_all(folder: Path, arguments: argparse.Namespace, style: Style) -> None:
    from energyalign.core._io.atomic import check_outputs
    from energyalign.experiments.train.run_directory import run_files
    from energyalign.report.drawing import save_figure

    if folder.suffix in (".png", ".svg", ".pdf"):
        raise EnergyAlignError(f"--out must be a folder for `figure all`, got the file {folder}.")
    runs = _read(arguments)
    if len({run.in_steps for run in runs}) > 1:
        raise EnergyAlignError("expected long-tailed or incremental runs, got both: give the folders of one kind.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnergyAlignError(f"cannot make the folder {folder}: {error.strerror}. Choose another --out.") from error
    check_outputs([folder / f"{name}.png" for name in FIGURES], run_files(arguments.runs))
    for name, entry in FIGURES.items():
        try:
            figure = entry.draw(runs, style)
        except EnergyAlignError as error:
            print(f"Skipped: {_explain(error, entry, arguments)}")
            continue
        save_figure(figure, folder / f"{name}.png")
        print(f"Wrote {folder / f'{name}.png'}.")


def _explain(error: EnergyAlignError, entry: FigureEntry, arguments: argparse.Namespace) -> str:
    """Return the message of an error. If only --rows prevents the figure, say so instead."""
    if not (arguments.rows and isinstance(error, MissingRowsError)):
        return str(error)
    try:
        entry.draw(_select(arguments))
    except EnergyAlignError:
        return str(error)
    return f"{error.needs}: --rows hides some of these. Add them to --rows, or leave it out."


def _read(arguments: argparse.Namespace) -> Sequence[StoredRun]:
    """Return the measured runs with the rows of --where and --rows; warn about runs without rows."""
    from energyalign.experiments.engine.stored import find_runs
    from energyalign.report.selection import select_named

    for run in find_runs(arguments.runs):
        if not run.rows:
            print(f"warning: {run.path} has no rows yet and is skipped.", file=sys.stderr)
    return select_named(_select(arguments), arguments.rows)


def _select(arguments: argparse.Namespace) -> Sequence[StoredRun]:
    """Return the measured runs with the rows of --where."""
    from energyalign.experiments.engine.stored import measured_runs
    from energyalign.report.selection import parse_where, select_runs

    return select_runs(measured_runs(arguments.runs), parse_where(arguments.where))
