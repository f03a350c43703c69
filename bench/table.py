"""A table of lines: store it, print it, render it as Markdown, and compare it with the recorded one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from bench.line import Line
from bench.machine import describe_machine, installed_versions


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


# A line counts as slower if it lost more than this share, and more than chance explains.
_TOLERATED = 0.10


@dataclass(frozen=True)
class Table:
    """Lines, with the machine and the versions that they were measured with."""

    lines: tuple[Line, ...]
    machine: dict[str, object] = field(default_factory=describe_machine)
    versions: dict[str, str] = field(default_factory=installed_versions)
    date: str = field(default_factory=_today)
    command: str = ""
    minutes: float = 0.0

    def write(self, path: Path) -> None:
        """Write the table as JSON."""
        stored: dict[str, Any] = {**self.__dict__, "lines": [line.to_json() for line in self.lines]}
        path.write_text(json.dumps(stored, indent=2) + "\n")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a table that `write` wrote."""
        stored = json.loads(path.read_text())
        return cls(**{**stored, "lines": tuple(Line.from_json(line) for line in stored["lines"])})

    def slower_than(self, before: Table) -> list[str]:
        """Return the lines that lost over a tenth since `before`, beyond both quartiles; none for another machine."""
        if before.machine != self.machine:
            return []
        earlier = {line.key: line for line in before.lines}
        return [
            f"{line.name}, {line.workload}, against {line.against}: {earlier[line.key].ratio:.3g}× then, "
            f"{line.ratio:.3g}× now"
            for line in self.lines
            if line.key in earlier and _is_slower(line, earlier[line.key])
        ]

    def markdown(self) -> str:
        """Return the table as Markdown for a page of the documentation."""
        header = "| line | workload | against | ratio | quartiles | ours | theirs | goal | |"
        rows = [header, "|---|---|---|---:|---|---:|---:|---|---|"]
        rows += ["| " + " | ".join(cells) + " |" for cells in map(_cells, self.lines)]
        used = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        told = (
            f"`{self.command}`, {self.date}, {self.minutes:.1f} minutes on {self.machine['processor']}, "
            f"{self.machine['cores']} cores, {self.machine['memory_gib']} GiB ({used})."
        )
        return "\n".join([told, "", *rows]) + "\n"


def with_table(page: str, name: str, table: str) -> str:
    """Return the text of a page with the table between its two comments of this name replaced."""
    start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, rest = page.split(start)
    return before + start + "\n" + table + "\n" + end + rest.split(end)[1]


def _is_slower(now: Line, before: Line) -> bool:
    if now.goal.faster:
        return now.ratio < before.ratio * (1 - _TOLERATED) and now.high < before.low
    return now.ratio > before.ratio * (1 + _TOLERATED) and now.low > before.high


def _cells(line: Line) -> Sequence[str]:
    spread = f"{line.low:.3g} to {line.high:.3g}" if line.runs > 1 else ""
    return (
        line.name, line.workload, line.against, f"{line.ratio:.3g}×", spread, *amounts(line), str(line.goal),
        line.verdict,
    )  # fmt: skip


def amounts(line: Line) -> tuple[str, str]:
    """Return the seconds or bytes of both sides; for a line about growth, ours at each size."""
    if line.curve:
        return ", ".join(amount(taken, line.unit) for _, taken in line.curve), ""
    return amount(line.ours, line.unit), amount(line.theirs, line.unit)


def amount(value: float, unit: str) -> str:
    """Format an amount with a suitable unit."""
    if unit == "bytes":
        return f"{value / 1e6:,.0f} MB"
    if unit == "s":
        return f"{value:.3g} s" if value >= 1 else f"{1000 * value:.3g} ms"
    return f"{value:.3g}{unit and ' '}{unit}"
