"""`energyalign report`: an interactive HTML page of one or more runs."""

from __future__ import annotations

import argparse
import sys

DESCRIPTION = (
    "Write one HTML file about the runs in these folders: results, every figure and table, a slider for the strength "
    "of the correction, and the commands that reproduce it. The file works offline and loads nothing."
)
EXAMPLES = """\
examples:
  energyalign report runs/digits-lt-50                              all runs in the folder, side by side
  energyalign report runs/digits-lt-50/ce/seed-0 --out ce.html
  energyalign report runs/cifar100-il-10 --serve                    follow runs in progress
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add = parser.add_argument
    add("runs", nargs="+", metavar="RUN", help="run directories, or folders that contain some")
    add("--out", default="report.html", metavar="FILE", help="file to write (default: %(default)s)")
    add("--title", default="", metavar="TEXT", help="title of the page (default: the names of the runs)")
    add("--serve", action="store_true", help="serve the page on localhost instead, and refresh it as runs progress")
    add("--port", type=int, default=8765, metavar="N", help="port of --serve; 0: any free one (default: %(default)s)")


def run(arguments: argparse.Namespace) -> None:
    """Write the page, or serve it until Ctrl-C."""
    from energyalign.cli.process import keep_freed_memory

    keep_freed_memory()  # for the next figure
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
    page.mark()  # raises for folders without runs, before a browser is opened
    with make_server(page, arguments.port) as server:
        address = f"http://localhost:{server.server_address[1]}/"
        print(f"{address} (Ctrl-C to stop)")
        sys.stdout.flush()
        if sys.stdout.isatty():
            webbrowser.open(address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("Stopped.")
