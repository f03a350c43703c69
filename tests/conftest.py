"""The table at the end of `make test-faults`: the promises of docs/guarantees.md, the number of trials of each, and the
results.

A test has the mark `promise(sentence, unit)` and counts as one trial, unless it sets another number with the fixture
`trials`. Both are properties of the test's report, which pytest-xdist's workers send to the main process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def trials(record_property: Callable[[str, object], None]) -> Callable[[int], None]:
    """Record the number of trials that the test made."""
    return lambda number: record_property("trials", number)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.user_properties += [("promise", list(marker.args)) for marker in item.iter_markers("promise")]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if "promise" not in config.option.markexpr:
        return
    made: Counter[tuple[str, str]] = Counter()
    failures: Counter[str] = Counter()
    for outcome in ("passed", "failed", "error"):
        for report in terminalreporter.getreports(outcome):
            for promise, unit in [value for name, value in report.user_properties if name == "promise"]:
                made[promise, unit] += dict(report.user_properties).get("trials", 1) if outcome == "passed" else 0
                failures[promise] += outcome != "passed"
    terminalreporter.section("promises")
    for (promise, unit), number in sorted(made.items()):
        kept = f"{failures[promise]} tests failed" if failures[promise] else "kept"
        terminalreporter.write_line(f"| {promise} | {number:,} {unit} | {kept} |")
