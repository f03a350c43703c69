"""How long the command line takes until it can answer anything."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

from bench.line import Line, at_most
from bench.measure import alternate


def lines() -> Iterator[Line]:
    """Of `--help`, which imports what every command does."""
    seconds = alternate(
        {
            "ours": _process("-m", "energyalign.cli.main", "--help"),
            "numpy": _process("-c", "import numpy"),
        },
        rounds=21,
    )
    yield Line.of(
        "cold start", "energyalign --help", 'python -c "import numpy"', at_most(2.0),
        ours=seconds["ours"], theirs=seconds["numpy"],
    )  # fmt: skip


def _process(*arguments: str) -> Callable[[], object]:
    return lambda: subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
