"""Fuzz one reader: read many mutations of its files with limited memory and time. Run as a program.

    python tests/helpers/fuzz_run.py READER [--cases 0:10000] [--keep FOLDER]

prints every case that ended neither with a result nor with an EnergyAlignError, and exits with 1 if there was one. A
case can be repeated by its number; --keep stores its files in that folder.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import importlib
import mmap
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path

import pyarrow
from fuzz_mutations import mutate
from fuzz_reader import Reader
from fuzz_readers import READERS, make_reader

from energyalign.core.errors import EnergyAlignError

ALLOWANCE = 100 * 2**20
TIMES_THE_FILE = 4
SECONDS = 60  # guards against hangs: the slowest case takes about 50 milliseconds
# Thousands of files are written, each twice.
_IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
_PAGE = os.sysconf("SC_PAGE_SIZE")
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8  # of malloc.h


def case_files(reader: Reader, name: str, case: int) -> tuple[int, dict[str, bytes]]:
    """Return the index of the sample of a case, and the files that differ from it."""
    rng = random.Random(f"{name} {case}")
    chosen = rng.randrange(len(reader.samples))
    sample = reader.samples[chosen]
    target = rng.choice([path for path in sample if path not in reader.fixed])
    changed = {target: mutate(sample[target], rng)}
    if reader.finish is not None and rng.random() < 0.7:
        changed |= reader.finish({**sample, **changed})
    return chosen, changed


def problem_with(reader: Reader, folder: Path, size: int) -> str:
    """Return the problem with reading the files in a folder; empty if there is none."""
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * _PAGE
    limit = in_use + TIMES_THE_FILE * size + ALLOWANCE + reader.reserved
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    signal.alarm(SECONDS)
    try:
        reader.read(folder)
    except EnergyAlignError as error:
        if any(_is_about_memory(cause) for cause in _causes(error)):
            return f"asked for more than {limit - in_use:,} bytes: {error}"
        return "" if reader.names(str(error)) else f"does not name its file: {error}"
    except BaseException:
        return traceback.format_exc()
    finally:
        signal.alarm(0)
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return ""


def problem_with_memory(reader: Reader, folder: Path, size: int) -> str:
    """Like `problem_with`, and also check that resident memory stays below the limit."""
    before = _reset_peak()
    problem = problem_with(reader, folder, size)
    used = _peak() - before
    if not problem and used > TIMES_THE_FILE * size + ALLOWANCE:
        return f"used {used:,} bytes of memory"
    return problem


def _reset_peak() -> int:
    """Reset the peak of resident memory to its current size, and return it."""
    Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _is_about_memory(error: BaseException) -> bool:
    words = ("MemoryError", "allocate", "bad_alloc", "out of memory", "bad allocation")  # it may be told, not chained
    return isinstance(error, MemoryError) or any(word in str(error) for word in words)


def _plain_allocators() -> None:
    """Make allocators return freed memory: otherwise memory limits would be inexact."""
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    libc = ctypes.CDLL(None)
    libc.mallopt(_M_ARENA_MAX, 1)
    libc.mallopt(_M_MMAP_THRESHOLD, 2**20)


def run_cases(name: str, cases: range, folder: Path, at: mmap.mmap) -> int:
    """Run cases and return the number of failures; `at` always holds the number of the current case."""
    reader, wrong = make_reader(name), 0
    places = [folder / str(number) for number in range(len(reader.samples))]
    for place, sample in zip(places, reader.samples, strict=True):
        for path, content in sample.items():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_bytes(content)
        reader.read(place)  # the unchanged sample must be valid; this also loads modules before memory is measured
    begun = time.monotonic()
    for case in cases:
        at[:8] = case.to_bytes(8, "little")
        chosen, changed = case_files(reader, name, case)
        for path, content in changed.items():
            (places[chosen] / path).write_bytes(content)
        sizes = [len(changed.get(path, content)) for path, content in reader.samples[chosen].items()]
        problem = problem_with_memory(reader, places[chosen], sum(sizes))
        if problem:
            wrong += 1
            print(f"{name}, case {case}: {problem}", flush=True)
        if len(cases) > 1:
            for path in changed:
                (places[chosen] / path).write_bytes(reader.samples[chosen][path])
    print(f"{name}: {len(cases):,} cases in {time.monotonic() - begun:.1f} s", flush=True)
    return wrong


def in_child(name: str, cases: range, keep: Path | None = None) -> bool:
    """Run the cases in a child process, and continue after a case that kills it; return whether all passed."""
    at, well = mmap.mmap(-1, 8), True
    while cases:
        at[:8] = cases.start.to_bytes(8, "little")
        folder = Path(tempfile.mkdtemp(prefix="fuzz-", dir=_IN_MEMORY)) if keep is None else keep
        sys.stdout.flush()
        child = os.fork()
        if not child:
            _run_and_exit(name, cases, folder, at)
        _, status = os.waitpid(child, 0)
        if keep is None:
            shutil.rmtree(folder)
        well = well and status == 0
        if not os.WIFSIGNALED(status):
            break
        case = int.from_bytes(at[:8], "little")
        print(f"{name}, case {case}: ended by {signal.Signals(os.WTERMSIG(status)).name}", flush=True)
        cases = range(case + 1, cases.stop)
    return well


def _run_and_exit(name: str, cases: range, folder: Path, at: mmap.mmap) -> None:
    # Native libraries write thousands of lines to standard error, which would hide the result.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    warnings.simplefilter("ignore")
    _plain_allocators()
    code = 101
    try:
        code = min(run_cases(name, cases, folder, at), 100)
    except BaseException:
        traceback.print_exc(file=sys.stdout)
    finally:
        sys.stdout.flush()
        os._exit(code)


def main() -> int:
    """Run the cases of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reader", nargs="+", choices=[*READERS, "all"])
    parser.add_argument("--cases", default="0:10000", help="from:to, or a single number")
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    first, _, end = arguments.cases.partition(":")
    cases = range(int(first), int(end) if end else int(first) + 1)
    names = list(READERS) if "all" in arguments.reader else arguments.reader
    for module in {READERS[name] for name in names}:
        importlib.import_module(module)  # once, before the readers' processes are forked:
    gc.freeze()  # otherwise the first collection in each child would copy the shared memory
    went_well = [in_child(name, cases, arguments.keep) for name in names]
    gc.unfreeze()
    return int(not all(went_well))


if __name__ == "__main__":
    sys.exit(main())
