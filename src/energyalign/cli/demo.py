"""`energyalign demo`: logits of a real network at once, then both applications of the paper in minutes."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from energyalign.demo.part import DemoSection

DESCRIPTION = (
    "Align the logits of a real network, which come with the package. Then cut scikit-learn's digits to a long "
    "tail, and let them come two classes at a time; train small networks, align them in several ways and measure on "
    "balanced held-out images. Writes tables and a page with figures and a live part. Stopped by Ctrl-C, the same "
    "command goes on where it was."
)
EXAMPLES = "examples:\n  energyalign demo\n  energyalign demo --out /tmp/demo --seed 7"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Of the command."""
    parser.add_argument(
        "--out", default="energyalign-demo", metavar="DIR", help="where to write (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the first of the seeds (default: 0)")


def run(arguments: argparse.Namespace) -> None:
    """Run it, print the tables, say where the rest is."""
    from energyalign.cli.process import resumable
    from energyalign.cli.terminal import make_console
    from energyalign.demo.run import run_demo

    console = make_console(sys.stdout)

    def say(text: str) -> None:
        console.print(text, markup=False)

    def show(section: DemoSection) -> None:
        _show(console, section)
        console.print()

    with resumable(arguments):
        result = run_demo(arguments.out, first_seed=arguments.seed, say=say, show=show)
    console.print()
    for section in result.sections:
        show(section)
    console.print("Wrote " + ", ".join(str(path) for path in result.files) + ".", markup=False)


def _show(console: Any, section: DemoSection) -> None:
    from energyalign.cli.terminal import print_for_people

    console.print(section.title, style="bold", markup=False)
    print_for_people(*section.tables)
    for paragraph in section.paragraphs:
        console.print(paragraph, markup=False)
