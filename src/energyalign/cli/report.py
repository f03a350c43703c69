"""`energyalign report`: one page of one or more runs, to look at and to try."""

from __future__ import annotations

import argparse
import sys

DESCRIPTION = (
    "Write one HTML file of the runs in these folders: what came out, every figure and table, a slider "
    "for the strength of the correction with all that moves with it, and how to run it again. It opens from disk "
    "and loads nothing."
)
EXAMPLES = """\
examples:
  energyalign report runs/digits-lt-50                              all runs in it, side by side
  energyalign report runs/digits-lt-50/ce/seed-0 --out ce.html
  energyalign report runs/cifar100-il-10 --serve                    look at it while the runs go on
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Of the command."""
    add = parser.add_argument
    add("runs", nargs="+", metavar="RUN", help="run directories, or folders that hold some")
    add("--out", default="report.html", metavar="FILE", help="where to write (default: %(default)s)")
    add("--title", default="", metavar="TEXT", help="of the page (default: what was run)")
    add("--serve", action="store_true", help="show it on localhost instead, and refresh it while runs go on")
    add("--port", type=int, default=8765, metavar="N", help="of --serve; 0 for any that is free (default: %(default)s)")


def run(arguments: argparse.Namespace) -> None:
    """Write the page, or serve it until Ctrl-C."""
    if arguments.serve:
        _serve(arguments)
        return
    from pathlib import Path

    from energyalign.core._io.atomic import check_outputs
    from energyalign.experiments.engine.stored import find_runs
    from energyalign.experiments.train.run_directory import run_files
    from energyalign.report.page.write import write_page

    check_outputs([arguments.out], run_files(arguments.runs))
    runs = find_runs(arguments.runs)
    print(f"Reading {len(runs):,} run{'s' if len(runs) > 1 else ''} and drawing the figures ...", file=sys.stderr)
    write_page(Path(arguments.out), runs, title=arguments.title)
    print(f"Wrote {arguments.out}.")


def _serve(arguments: argparse.Namespace) -> None:
    import webbrowser

    from energyalign.report.server import LivePage, make_server

    page = LivePage(arguments.runs, title=arguments.title)
    page.mark()  # folders without runs are refused here, not in the browser
    with make_server(page, arguments.port) as server:
        address = f"http://localhost:{server.server_address[1]}/"
        print(f"{address} (Ctrl-C ends it)")
        sys.stdout.flush()
        if sys.stdout.isatty():  # a person is there to see it
            webbrowser.open(address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("Stopped.")
