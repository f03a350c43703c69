"""Read a Parquet file once in a process of its own, which may die, before this process reads it.

pyarrow allocates what a file states. A file whose row groups state much more than the file could hold may be well
compressed, or damaged, or made to fill the memory: the trial tells which. All other files are read without a trial.

Run as a script, this file is the child. It imports nothing but pyarrow, so that it starts in a fraction of a second.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

MAX_SECONDS = 600
_ROWS = 256
_ADDRESS_SPACE = 3 * 2**30  # what Python and pyarrow reserve, with room for a page of the largest size that there is


def require_plausible_sizes(file: Any, path: Path, name: str, columns: Sequence[str]) -> None:
    """Refuse a file that would take much more memory than it has bytes.

    Only the row groups' own numbers are asked for: pyarrow aborts the process when the column chunks of some damaged
    files are asked for theirs.

    Parameters
    ----------
    file : pyarrow.parquet.ParquetFile
    path : Path
        Where it is.
    name : str
        What messages call it.
    columns : sequence of str
        The columns that will be read.
    """
    from energyalign.files.checks import max_unpacked

    size = path.stat().st_size
    groups = (file.metadata.row_group(index) for index in range(file.num_row_groups))
    if any(group.total_byte_size > max_unpacked(size) for group in groups):
        _try_in_child(path, name, columns, size)


def _try_in_child(path: Path, name: str, columns: Sequence[str], size: int) -> None:
    from energyalign.core.errors import EnergyAlignError
    from energyalign.files.checks import max_unpacked, refuse_bomb

    command = [sys.executable, "-P", __file__, str(path), str(max_unpacked(size)), *columns]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=MAX_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnergyAlignError(f"{name} states sizes that are not plausible, and a trial failed: {error}.") from error
    if done.returncode:
        reason = (done.stderr.splitlines() or [f"a trial ended with code {done.returncode}"])[0]
        raise EnergyAlignError(f"{name} is damaged, or would fill the memory ({reason[:200]}). Write it again.")
    refuse_bomb(int(done.stdout), size, f"a part of {name}")


def _read_all(path: str, max_bytes: int, columns: list[str]) -> int:
    """Read the columns and return the peak of pyarrow's memory; stop when it is above `max_bytes`."""
    import pyarrow
    import pyarrow.parquet

    pool = pyarrow.default_memory_pool()
    with pyarrow.parquet.ParquetFile(path, pre_buffer=False, buffer_size=2**14) as file:
        for _ in file.iter_batches(batch_size=_ROWS, columns=columns, use_threads=False):
            if pool.max_memory() > max_bytes:
                break
    return int(pool.max_memory())


def _limit_address_space(n_bytes: int) -> None:
    """Make allocations beyond `n_bytes` fail, where the system can do that (Windows cannot)."""
    with contextlib.suppress(ImportError, AttributeError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (n_bytes, n_bytes))


if __name__ == "__main__":
    _path, _max_bytes, *_columns = sys.argv[1:]
    _limit_address_space(_ADDRESS_SPACE + int(_max_bytes))
    try:
        print(_read_all(_path, int(_max_bytes), _columns))
    except Exception as error:
        sys.exit(str(error))
