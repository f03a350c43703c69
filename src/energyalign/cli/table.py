"""`energyalign table`: the paper's tables next to the numbers of your runs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from energyalign.cli.terminal import print_for_people

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from energyalign.report.tables.model import PaperTable

_FORMATS = ("terminal", "markdown", "latex", "csv", "json")
DESCRIPTION = (
    "Print a table of the paper: its numbers, the numbers of your runs (mean and standard deviation over "
    "seeds) and the differences. Or print a table of any runs. Numbers that were not measured are shown as missing."
)
EXAMPLES = """\
examples:
  energyalign list tables                                             which tables there are
  energyalign table cifar-lt runs/cifar100-lt-100 runs/cifar10-lt-50
  energyalign table longtail runs/digits-lt-50 --format markdown
  energyalign table longtail runs/digits-lt-20 runs/digits-lt-200 --columns balanced few    data sets side by side
  energyalign table longtail runs --columns balanced macro-F1 ECE NLL Brier                 columns of metrics
  energyalign table longtail runs --rows ce 'la-*' ea --where seed=0 seed=1 backbone=resnet32
  energyalign table incremental runs --per-seed --format csv --out seeds.csv
  energyalign table cifar100-il-10 runs/cifar100-il-10 --format latex --out table.tex
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add = parser.add_argument
    add("name", metavar="NAME", help="a name from `energyalign list tables`")
    add("runs", metavar="RUN", nargs="+", help="run directories, or folders that contain some")
    add("--rows", nargs="+", action="extend", default=[], metavar="NAME",
        help="print only these rows, in this order: methods, correctors, or both, such as ea, raw or 'ldam-drw + ea'; "
        "* matches any text: 'la-*'")  # fmt: skip
    add_table_options(parser)
    add("--per-seed", action="store_true", help="print a row per seed instead of means over seeds")


def add_table_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that prints a table of rows."""
    add = parser.add_argument
    add("--columns", nargs="+", action="extend", default=[], metavar="NAME",
        help="print only these columns, in this order, by title or group; * matches any text")  # fmt: skip
    add_where_option(parser)
    add("--format", choices=_FORMATS, default="terminal", help="format of the table (default: %(default)s)")
    add("--out", metavar="FILE", help="write the table to this file instead of printing it")


def add_where_option(parser: argparse.ArgumentParser) -> None:
    """Add --where, the option of every command that reads rows."""
    parser.add_argument(
        "--where", nargs="+", action="extend", default=[], metavar="KEY=VALUE",
        help="use only runs and rows with this value, such as seed=0, learner=ce, corrector=ea, step=5, head=linear or "
        "any setting of config.json (recipe.batch_size=128); values of the same key are alternatives; * matches any "
        "text",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> None:
    """Read rows, make the table, print it."""
    from energyalign.experiments.engine.stored import load_rows
    from energyalign.report.selection import make_part, parse_where, select_rows
    from energyalign.report.tables import find_table

    entry, where = find_table(arguments.name), parse_where(arguments.where)

    def make() -> PaperTable:
        rows = select_rows(load_rows(*arguments.runs), where)
        return make_part(entry, rows, arguments.rows, arguments.columns, per_seed=arguments.per_seed)

    write_table(arguments, arguments.runs, make)


def write_table(arguments: argparse.Namespace, folders: Sequence[str], make: Callable[[], PaperTable]) -> None:
    """Print the table, or write it to --out, which must not be one of the files in `folders`."""
    from energyalign.core._io.atomic import atomic_write, check_outputs
    from energyalign.experiments.train.run_directory import run_files

    check_outputs([arguments.out], run_files(folders))
    table = make()
    if arguments.out is not None:
        with atomic_write(arguments.out) as stream:
            stream.write(table.render(arguments.format))
        print(f"Wrote {arguments.out}.")
    elif arguments.format == "terminal":
        print_for_people(table)
    else:
        print(table.render(arguments.format), end="")
