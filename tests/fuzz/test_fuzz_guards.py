"""The fuzzer detects wrong errors, excessive memory, hangs and native crashes."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

HELPERS = Path(__file__).parents[1] / "helpers"
BAD = """
import sys
sys.path.insert(0, {helpers!r})
import fuzz_readers, fuzz_run
from fuzz_reader import Reader
from energyalign.core.errors import EnergyAlignError

def read(folder):
    content = (folder / "a").read_bytes()
    if content != b"good":
        {body}

fuzz_run.make_reader = lambda name: Reader(read, [{{"a": b"good"}}], named="a file")
fuzz_run.SECONDS = 1
sys.exit(not fuzz_run.in_child("bad", range(40, 43)))
"""


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("raise KeyError('x')", "KeyError: 'x'"),
        ("bytearray(110 * 2**20)", "MemoryError"),
        ("try:\n            bytearray(110 * 2**20)\n        except MemoryError as error:\n"
         "            raise EnergyAlignError('a file') from error", "asked for more than 104,8"),
        ("raise EnergyAlignError('something is wrong')", "does not name its file: something is wrong"),
        ("while True: pass", f"ended by {signal.SIGALRM.name}"),
        ("import ctypes; ctypes.string_at(0)", f"ended by {signal.SIGSEGV.name}"),
        ("import os; os.abort()", f"ended by {signal.SIGABRT.name}"),
    ],
)  # fmt: skip
def test_what_must_not_be_is_told_with_its_case(body: str, told: str) -> None:
    code = BAD.format(helpers=str(HELPERS), body=body)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    for case in (40, 41, 42):
        assert f"bad, case {case}: " in done.stdout
    assert told in done.stdout


def test_a_good_reader_passes() -> None:
    code = BAD.format(helpers=str(HELPERS), body="raise EnergyAlignError('a file is damaged')")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.startswith("bad: 3 cases in ")) == (0, True), done.stdout + done.stderr
