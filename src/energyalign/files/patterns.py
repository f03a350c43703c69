"""Names of files with wildcards, for more files than a shell can pass on."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path

from energyalign.core.errors import EnergyAlignError


def expand_patterns(names: Sequence[str]) -> list[str]:
    """The files that the names stand for: themselves, or all that match ``*``, ``?``, ``[...]`` or ``**``, sorted.

    A name that is that of a file is no pattern, whatever its characters.
    """
    files: list[str] = []
    for name in names:
        if not glob.has_magic(name) or Path(name).exists():
            files.append(name)
            continue
        found = sorted(glob.glob(name, recursive=True))
        if not found:
            raise EnergyAlignError(f"{name} matches no file: check the folder and the pattern.")
        files += found
    return files
