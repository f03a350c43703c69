"""`energyalign table`: the paper's tables with our numbers beside."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from energyalign.cli.terminal import print_for_people

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from energyalign.report.tables.model import PaperTable

_FORMATS = ("terminal", "markdown", "latex", "csv", "json")
DESCRIPTION = (
    "Print a table of the paper with its numbers, those of your runs (mean and standard deviation over "
    "seeds) and the difference, or a table of any runs. What was not measured is shown as missing."
)
EXAMPLES = """\
examples:
  energyalign list tables                                             which tables there are
  energyalign table cifar-lt runs/cifar100-lt-100 runs/cifar10-lt-50
  energyalign table longtail runs/digits-lt-50 --format markdown
  energyalign table longtail runs/digits-lt-20 runs/digits-lt-200 --columns balanced few    data sets side by side
  energyalign table longtail runs --rows ce 'la-*' ea --where seed=0 seed=1 backbone=resnet32
  energyalign table incremental runs --per-seed --format csv --out seeds.csv
  energyalign table cifar100-il-10 runs/cifar100-il-10 --format latex --out table.tex
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Of the command."""
    add = parser.add_argument
    add("name", metavar="NAME", help="of `energyalign list tables`")
    add("runs", metavar="RUN", nargs="+", help="run directories, or folders with some in them")
    add("--rows", nargs="+", action="extend", default=[], metavar="NAME",
        help="these rows of the table alone, in this order; a name may have a *: 'la-*'")  # fmt: skip
    add_columns_option(parser)
    add_where_option(parser)
    add("--per-seed", action="store_true", help="a row for each seed, instead of means over seeds")
    add_output_options(parser)


def add_columns_option(parser: argparse.ArgumentParser) -> None:
    """Of every command that makes a table."""
    parser.add_argument(
        "--columns", nargs="+", action="extend", default=[], metavar="NAME",
        help="these columns alone, in this order, by title or group; a name may have a *",
    )  # fmt: skip


def add_where_option(parser: argparse.ArgumentParser) -> None:
    """Of every command that reads rows."""
    parser.add_argument(
        "--where", nargs="+", action="extend", default=[], metavar="KEY=VALUE",
        help="only runs and rows with this value, such as seed=0, learner=ce, corrector=ea, step=5, head=linear or any "
        "setting of config.json (recipe.batch_size=128); values of one key are alternatives and may have a *",
    )  # fmt: skip


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """Of every command that makes a table."""
    add = parser.add_argument
    add("--format", choices=_FORMATS, default="terminal", help="default: %(default)s")
    add("--out", metavar="FILE", help="write it into this file instead of printing it")


def run(arguments: argparse.Namespace) -> None:
    """Read, make, print."""
    from energyalign.experiments.engine.stored import load_rows
    from energyalign.report.selection import parse_where, select_part, select_rows
    from energyalign.report.tables import find_table

    entry, where = find_table(arguments.name), parse_where(arguments.where)

    def make() -> PaperTable:
        rows = select_rows(load_rows(*arguments.runs), where)
        return select_part(entry.make(rows, per_seed=arguments.per_seed), arguments.rows, arguments.columns)

    write_table(arguments, arguments.runs, make)


def write_table(arguments: argparse.Namespace, folders: Sequence[str], make: Callable[[], PaperTable]) -> None:
    """Print the table of these folders, or write it to --out, which is none of their files."""
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
