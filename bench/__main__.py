"""`python -m bench`: measure all lines, print them as they come, store the table, and report what became slower."""

from __future__ import annotations

import argparse
import importlib
import shlex
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from bench.line import Line
from bench.table import Table, amounts, with_table

_HERE = Path(__file__).parent
_PAGE = _HERE.parent / "docs" / "performance.md"

# In the order of the table: lines about the machine's own limits come first.
SUBJECTS = (
    "energies", "streamed", "marginal", "auto", "jenks", "inference", "sklearn_wrapper", "sklearn_fit", "training",
    "features", "photographs", "teacher", "evidence", "cold_start", "fit_command", "resume",
)  # fmt: skip
FULL_SUBJECTS = (
    "larger", "sklearn_fit_large", "incremental_step", "growth", "fit_jobs", "fit_memory", "apply_command",
    "report", "incremental_memory",
)  # fmt: skip


def main() -> int:
    options = _parse()
    console = Console(highlight=False, soft_wrap=True)
    found = _measure_all(console, options.only or SUBJECTS + (FULL_SUBJECTS if options.full else ()))
    command = "make bench-full" if options.full else "make bench"
    if options.only:
        command = shlex.join(["python", "-m", "bench", *sys.argv[1:]])
    tables = {
        part: Table(tuple(lines), command=command, minutes=found.minutes[part])
        for part, lines in found.lines.items()
        if lines
    }
    lines = [line for table in tables.values() for line in table.lines]
    minutes = sum(found.minutes.values())
    Table(tuple(lines), command=command, minutes=minutes).write(options.out)
    console.print(f"Lines: {len(lines)}, in {minutes:.1f} minutes, stored in {options.out}.")
    for part, table in tables.items():
        _tell_what_is_slower(console, table, _HERE / f"baseline{part}.json")
        if options.record and found.is_whole:
            _record(console, part, table)
    missed = [line for line in lines if line.verdict == "FAIL"]
    for line in missed:
        console.print(f"[red]Missed:[/] {line.name}, {line.workload}, against {line.against}")
    for subject in found.broken:
        console.print(f"[red]Could not be measured:[/] {subject}")
    if found.stopped:
        console.print("Stopped: the remaining lines were not measured, and nothing was recorded.")
        return 130
    return 1 if found.broken or missed else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__,
        epilog="Example: python -m bench --only energies jenks --out some.json",
    )  # fmt: skip
    add = parser.add_argument
    add("--full", action="store_true", help="add longer measurements: growth, memory, comparisons with other programs")
    add("--only", nargs="+", metavar="SUBJECT", choices=SUBJECTS + FULL_SUBJECTS, default=[],
        help=f"measure these: {', '.join(SUBJECTS)}; {', '.join(FULL_SUBJECTS)}")  # fmt: skip
    add("--out", type=Path, default=Path("bench-results.json"), help="where the table is stored (default: %(default)s)")
    add("--record", action="store_true", help="also make it the baseline and the table of the docs")
    options = parser.parse_args()
    if options.record and options.only:
        parser.error("--record needs a whole table, with all lines from one run: leave out --only.")
    if not options.out.parent.is_dir() or options.out.is_dir():
        parser.error(f"--out {options.out} must be a file in an existing folder.")
    return options


@dataclass
class _Found:
    """Lines and minutes of both tables, by the ending of their names, and subjects that could not be measured."""

    lines: dict[str, list[Line]] = field(default_factory=lambda: {"": [], "-full": []})
    minutes: dict[str, float] = field(default_factory=lambda: {"": 0.0, "-full": 0.0})
    broken: list[str] = field(default_factory=list)
    stopped: bool = False

    @property
    def is_whole(self) -> bool:
        return not self.broken and not self.stopped


def _measure_all(console: Console, subjects: Sequence[str]) -> _Found:
    found = _Found()
    for subject in subjects:
        part, start = "-full" if subject in FULL_SUBJECTS else "", time.monotonic()
        try:
            with console.status(f"measuring {subject}"):
                for line in _measure(subject):
                    _tell(console, line)
                    found.lines[part].append(line)
        except Exception:  # continue with the other lines
            traceback.print_exc()
            found.broken.append(subject)
        except KeyboardInterrupt:  # keep the lines so far
            found.stopped = True
            break
        finally:
            found.minutes[part] += (time.monotonic() - start) / 60
    return found


def _measure(subject: str) -> Iterator[Line]:
    module = importlib.import_module(f"bench.lines.{subject}")
    return module.full_lines() if subject in FULL_SUBJECTS else module.lines()


def _tell(console: Console, line: Line) -> None:
    colour = "green" if line.passed else "red" if line.verdict == "FAIL" else "yellow"
    spread = f" ({line.low:.3g} to {line.high:.3g})" if line.runs > 1 else ""
    console.print(
        f"[bold]{line.name}[/], {line.workload}, against {line.against}: [bold]{line.ratio:.3g}×[/]{spread}, "
        f"goal {line.goal}: [{colour}]{line.verdict}[/]   [dim]{' to '.join(filter(None, amounts(line)))}[/]"
    )


def _record(console: Console, part: str, table: Table) -> None:
    baseline = _HERE / f"baseline{part}.json"
    table.write(baseline)
    _PAGE.write_text(with_table(_PAGE.read_text(), f"table{part}", table.markdown()))
    if curves := [line for line in table.lines if line.curve]:
        from bench.curves import draw_curves  # matplotlib, which no line needs

        draw_curves(curves, _PAGE.parent / "images" / "growth.png")
    console.print(f"Recorded in bench/{baseline.name} and docs/{_PAGE.name}.")


def _tell_what_is_slower(console: Console, table: Table, baseline: Path) -> None:
    if not baseline.exists():
        return
    try:
        before = Table.read(baseline)
    except (KeyError, TypeError, ValueError):  # a bad baseline must not discard ten minutes of measurements
        console.print(
            f"Not compared: bench/{baseline.name} is from another version. Record a new baseline with --record."
        )
        return
    if before.machine != table.machine:
        differing = [
            f"{there} there, {table.machine[key]} here"
            for key, there in before.machine.items()
            if there != table.machine[key]
        ]
        console.print(f"Not compared: the recorded table is from another machine ({'; '.join(differing)}).")
        return
    unknown = {line.key for line in table.lines} - {line.key for line in before.lines}
    if unknown:
        console.print(f"Not compared, as the table recorded on {before.date} does not have them: {len(unknown)} lines.")
    slower = table.slower_than(before)
    if not slower:
        console.print(f"Nothing is more than 10 % slower than the table recorded on {before.date}.")
    for sentence in slower:
        console.print(f"[yellow]More than 10 % slower than on {before.date}:[/] {sentence}")


if __name__ == "__main__":
    sys.exit(main())
