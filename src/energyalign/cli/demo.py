"""`energyalign demo`: stored logits of a real network, then both applications of the paper in minutes."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from energyalign.demo.part import DemoSection

DESCRIPTION = (
    "Align stored logits of a real network, which come with the package. Then train small networks on scikit-learn's "
    "digits, once with a long tail and once in steps of two classes, align them in several ways, and measure them on "
    "balanced held-out images. Writes tables and an HTML page with figures. After Ctrl-C, the same command resumes."
)
EXAMPLES = "examples:\n  energyalign demo\n  energyalign demo --out /tmp/demo --seed 7"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add = parser.add_argument
    add("--out", default="energyalign-demo", metavar="DIR", help="folder to write to (default: %(default)s)")
    add("--seed", type=int, default=0, metavar="N", help="first seed (default: 0)")


def run(arguments: argparse.Namespace) -> None:
    """Run the demo, print its tables, list its files."""
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
