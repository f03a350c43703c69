"""Kill a command repeatedly at random moments, then let it finish."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fault import ended, files_of, started


@dataclass(frozen=True)
class Whole:
    """A run without interruptions.

    Attributes
    ----------
    files : dict
        Contents of the files that it wrote.
    calls : dict
        Number of calls of each file operation.
    """

    arguments: list[str]
    files: dict[str, bytes]
    calls: dict[str, int]

    @classmethod
    def of(cls, arguments: list[str], folder: Path) -> Whole:
        calls = folder.with_suffix(".json")
        code, told = ended(arguments, folder, {"count": str(calls)})
        assert code == 0, told
        return cls(arguments, files_of(folder), json.loads(calls.read_text()))


def random_kills(whole: Whole, seed: int) -> list[dict[str, Any]]:
    """Draw three faults: a kill in any file operation, a kill in one soon after the start, and a kill by the clock."""
    rng = random.Random(seed)
    anywhere, soon = (rng.choice(sorted(whole.calls)) for _ in range(2))
    return [
        {"kill": anywhere, "at": rng.randint(1, whole.calls[anywhere])},
        {"kill": soon, "at": rng.randint(1, min(6, whole.calls[soon]))},
        {"after": rng.uniform(0.3, 4.0)},
    ]


def killed(whole: Whole, folder: Path, fault: dict[str, Any]) -> bool:
    """Run the command with this fault; return False if it finished before."""
    if "after" not in fault:
        code, told = ended(whole.arguments, folder, fault)
    else:
        process = started(whole.arguments, folder)
        time.sleep(fault["after"])
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        code, told = process.wait(), process.stderr
    assert code in (0, -signal.SIGKILL), told
    return code != 0


def assert_ends_as(whole: Whole, folder: Path) -> None:
    """Check that the undisturbed command completes exactly the files of the run without interruptions."""
    code, told = ended(whole.arguments, folder)
    assert code == 0, told
    found = files_of(folder)
    assert sorted(found) == sorted(whole.files)
    assert [name for name in found if found[name] != whole.files[name]] == []


def assert_survives_random_kills(whole: Whole, folder: Path, seed: int) -> int:
    """Kill the command three times, then check its files; return how many kills came before its end."""
    first, *others = random_kills(whole, seed)
    assert killed(whole, folder, first)
    kills = 1 + sum(killed(whole, folder, fault) for fault in others)
    assert_ends_as(whole, folder)
    return kills
