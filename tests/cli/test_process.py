"""Memory settings of the C library, in separate processes."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries are not told anything")

_HEAPS = """
import sys, threading
from energyalign.cli import process

def size():
    return int(open("/proc/self/status").read().split("VmSize:")[1].split()[0])

if sys.argv[1] == "told":
    process.share_one_heap()
before, enough = size(), threading.Barrier(5)

def allocate():
    kept = [bytes(10_000) for _ in range(100)]
    enough.wait()
    enough.wait()

for _ in range(4):
    threading.Thread(target=allocate).start()
enough.wait()
print((size() - before) * 1024)
enough.wait()
"""

_FAULTS = """
import resource, sys
from energyalign.cli import process

if sys.argv[1] == "told":
    process.keep_freed_memory()

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def batch():
    activations = [b"1" * (8 << 20) for _ in range(8)]

batch()
before = faults()
for _ in range(5):
    batch()
print(faults() - before)
"""


def _printed(program: str, setting: str) -> int:
    as_it_comes = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    done = subprocess.run(
        [sys.executable, "-c", program, setting], env=as_it_comes, capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def test_threads_reserve_no_heaps_of_their_own() -> None:
    a_heap = 64 * 2**20
    assert _printed(_HEAPS, "as it is") - _printed(_HEAPS, "told") >= 3 * a_heap


def test_freed_memory_does_not_come_back_page_by_page() -> None:
    pages_of_a_batch = 8 * (8 << 20) // 4096
    assert _printed(_FAULTS, "as it is") > pages_of_a_batch
    assert _printed(_FAULTS, "told") < pages_of_a_batch / 10
