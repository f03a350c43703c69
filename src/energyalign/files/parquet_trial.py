"""Read a suspicious Parquet file in a child process first, where a crash does no harm.

pyarrow allocates the sizes that a file declares. A file whose row groups declare much more than its size may be well
compressed, or damaged, or made to exhaust memory: the trial tells which. Other files are read without a trial.

The child runs this file as a script. It imports nothing but pyarrow, so that it starts in a fraction of a second.
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
_ADDRESS_SPACE = 3 * 2**30  # what Python and pyarrow reserve, and room for a page of the maximum size


def require_plausible_sizes(file: Any, path: Path, name: str, columns: Sequence[str]) -> None:
    """Refuse a file that needs much more memory than its size suggests.

    Only metadata of row groups are read: for some damaged files, pyarrow aborts the process when metadata of column
    chunks are read.

    Parameters
    ----------
    file : pyarrow.parquet.ParquetFile
    path : Path
    name : str
        Name of the file in messages.
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
        raise EnergyAlignError(
            f"{name} declares implausible sizes, and a trial read failed: {error}. Write it again."
        ) from error
    if done.returncode:
        reason = (done.stderr.splitlines() or [f"a trial read ended with code {done.returncode}"])[0]
        raise EnergyAlignError(f"{name} is damaged, or would exhaust memory ({reason[:200]}). Write it again.")
    refuse_bomb(int(done.stdout), size, f"a part of {name}")


def _read_all(path: str, max_bytes: int, columns: list[str]) -> int:
    """Read the columns, until pyarrow's memory exceeds `max_bytes`, and return its peak."""
    import pyarrow
    import pyarrow.parquet

    pool = pyarrow.default_memory_pool()
    with pyarrow.parquet.ParquetFile(path, pre_buffer=False, buffer_size=2**14) as file:
        for _ in file.iter_batches(batch_size=_ROWS, columns=columns, use_threads=False):
            if pool.max_memory() > max_bytes:
                break
    return int(pool.max_memory())


def _limit_address_space(n_bytes: int) -> None:
    """Make allocations beyond `n_bytes` fail, except on Windows."""
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
