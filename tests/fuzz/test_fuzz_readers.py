"""Every file reader handles thousands of mutated files: a result or our error, within limits of memory and time."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fuzz_readers import READERS
from warm_process import WarmProcess

pytestmark = pytest.mark.promise("Any input bytes give a result or one error", "mutations")

CASES = 10_000
PROGRAM = Path(__file__).parents[1] / "helpers" / "fuzz_run.py"


def fuzz(folder: Path, *arguments: object) -> str:
    """Run the fuzzer and return its output; it has its own guard against hangs."""
    process = WarmProcess([PROGRAM, *arguments], folder, folder / "logs")
    while (code := process.poll()) is None:
        time.sleep(0.1)
    printed = (folder / "logs" / "stdout").read_text()
    assert code == 0, printed + process.stderr
    return printed


def test_some_mutations_for_every_reader(tmp_path: Path, trials: Callable[[int], None]) -> None:
    trials(100 * len(READERS))
    printed = fuzz(tmp_path, "all", "--cases", "0:100")
    assert [line.split(":")[0] for line in printed.splitlines()] == list(READERS)


@pytest.mark.fuzz
@pytest.mark.parametrize("reader", READERS)
def test_many_mutations(tmp_path: Path, reader: str, trials: Callable[[int], None]) -> None:
    trials(CASES)
    assert fuzz(tmp_path, reader, "--cases", f"100:{100 + CASES}").startswith(f"{reader}: {CASES:,} cases in ")
