"""`python -m bench`: measure the lines, print them as they come, store the table, say what became slower."""

from __future__ import annotations

import argparse
import importlib
import shlex
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from bench.line import Line
from bench.table import Table, amounts, with_table

_HERE = Path(__file__).parent
_PAGE = _HERE.parent / "docs" / "performance.md"

# In the order of the table; those of the machine's own limits first.
SUBJECTS = (
    "energies", "streamed", "marginal", "jenks", "inference", "sklearn_wrapper", "training", "teacher", "evidence",
    "cold_start", "resume",
)  # fmt: skip
FULL_SUBJECTS = ("incremental_step", "growth", "fit_memory", "incremental_memory")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--full", action="store_true", help="add what takes longer: growth, memory, peers of their own")
    parser.add_argument("--only", nargs="+", metavar="SUBJECT", choices=SUBJECTS + FULL_SUBJECTS, default=[])
    parser.add_argument("--out", type=Path, default=Path("bench-results.json"), help="where the table is stored")
    parser.add_argument(
        "--record",
        action="store_true",
        help="also make it the baseline and the table of the docs",
    )
    options = parser.parse_args()
    if options.record and options.only:
        parser.error("--record is for a whole table, so that all of its lines are of one run: leave out --only.")
    if not options.out.parent.is_dir():
        parser.error(f"there is no folder {options.out.parent} for --out.")
    subjects = options.only or SUBJECTS + (FULL_SUBJECTS if options.full else ())
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    command = "make bench-full" if options.full else "make bench"
    if options.only:
        command = shlex.join(["python", "-m", "bench", *sys.argv[1:]])
    measured: dict[str, list[Line]] = {"": [], "-full": []}
    minutes, broken = dict.fromkeys(measured, 0.0), []
    for subject in subjects:
        part, start = "-full" if subject in FULL_SUBJECTS else "", time.monotonic()
        try:
            for line in _measure(subject):
                _tell(console, line)
                measured[part].append(line)
        except Exception:  # the other lines are still worth having
            traceback.print_exc()
            broken.append(subject)
        minutes[part] += (time.monotonic() - start) / 60
    lines = [line for part in measured.values() for line in part]
    total = sum(minutes.values())
    Table(tuple(lines), command=command, minutes=total).write(options.out)
    console.print(f"{len(lines)} lines in {total:.1f} minutes, stored in {options.out}.")
    for part in (part for part, found in measured.items() if found):
        table = Table(tuple(measured[part]), command=command, minutes=minutes[part])
        baseline = _HERE / f"baseline{part}.json"
        _tell_what_is_slower(console, table, baseline)
        if options.record and not broken:
            table.write(baseline)
            _PAGE.write_text(with_table(_PAGE.read_text(), f"table{part}", table.markdown()))
            if curves := [line for line in table.lines if line.curve]:
                from bench.curves import draw_curves  # matplotlib, which no line needs

                draw_curves(curves, _PAGE.parent / "images" / "growth.png")
            console.print(f"Recorded in bench/{baseline.name} and docs/{_PAGE.name}.")
    for line in lines:
        if line.verdict == "FAIL":
            console.print(f"[red]Missed:[/] {line.name}, {line.workload}, against {line.against}")
    for subject in broken:
        console.print(f"[red]Could not be measured:[/] {subject}")
    return 1 if broken or any(line.verdict == "FAIL" for line in lines) else 0


def _measure(subject: str) -> Iterator[Line]:
    module = importlib.import_module(f"bench.lines.{subject}")
    return module.full_lines() if subject in FULL_SUBJECTS else module.lines()


def _tell(console: Console, line: Line) -> None:
    colour = "green" if line.passed else "red" if line.verdict == "FAIL" else "yellow"
    spread = f" ({line.low:.3g} to {line.high:.3g})" if line.runs > 1 else ""
    console.print(
        f"[bold]{line.name}[/], {line.workload}, against {line.against}: [bold]{line.ratio:.3g}×[/]{spread}, "
        f"goal {line.goal}: [{colour}]{line.verdict}[/]   "
        f"[dim]{' to '.join(filter(None, amounts(line)))}[/]"
    )


def _tell_what_is_slower(console: Console, table: Table, baseline: Path) -> None:
    if not baseline.exists():
        return
    before = Table.read(baseline)
    if before.machine != table.machine:
        console.print("The recorded table is of another machine: no comparison. Record one here with --record.")
        return
    if unknown := len({line.key for line in table.lines} - {line.key for line in before.lines}):
        console.print(f"{unknown} lines are not in the table recorded on {before.date}: nothing to compare them with.")
    slower = table.slower_than(before)
    if not slower:
        console.print(f"Nothing is more than 10 % slower than the table recorded on {before.date}.")
    for sentence in slower:
        console.print(f"[yellow]More than 10 % slower than on {before.date}:[/] {sentence}")


if __name__ == "__main__":
    sys.exit(main())
