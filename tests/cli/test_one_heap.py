"""Threads that allocate from one heap."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
import sys, threading
from energyalign.cli.one_heap import share_one_heap

def size():
    return int(open("/proc/self/status").read().split("VmSize:")[1].split()[0])

if sys.argv[1] == "one":
    share_one_heap()
before, enough = size(), threading.Barrier(5)

def allocate():
    kept = [bytes(10_000) for _ in range(100)]
    enough.wait()
    enough.wait()

for _ in range(4):
    threading.Thread(target=allocate).start()
enough.wait()
print(size() - before)
enough.wait()
"""


def _growth(heaps: str) -> int:
    done = subprocess.run([sys.executable, "-c", _PROGRAM, heaps], capture_output=True, text=True, check=True)
    return int(done.stdout) * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="address space is read from /proc")
def test_threads_reserve_no_heaps_of_their_own() -> None:
    a_heap = 64 * 2**20
    assert _growth("many") - _growth("one") >= 3 * a_heap
