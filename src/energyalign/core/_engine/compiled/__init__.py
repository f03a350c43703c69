"""The two inner loops of the method as machine code, for logits so many that loading a compiler pays.

They need Numba (``pip install 'energyalign[fast]'``). Without it, with its own switch ``NUMBA_DISABLE_JIT=1``, and for
less work than that, NumPy does the same.
"""

from __future__ import annotations

import os
import warnings
from functools import cache
from importlib.util import find_spec

from energyalign.core.errors import EnergyAlignError

# What NumPy needs longer for than Numba takes to load: one pass over so many numbers, or many passes over fewer.
ONE_PASS = 1 << 27
MANY_PASSES = 1 << 23


def worthwhile(numbers: int, min_numbers: int) -> bool:
    """Whether so many numbers should go through compiled loops.

    It depends on the work and on what is installed, never on what was done before: the same input, the same bits.
    """
    return numbers >= min_numbers and _installed()


@cache
def _installed() -> bool:
    if find_spec("numba") is None:
        return False
    try:
        import numba
    except Exception as error:  # no memory is left, or it does not go with this version of NumPy or Python
        warnings.warn(
            f"Numba is installed and cannot be loaded ({type(error).__name__}: {error}): NumPy works in its place, "
            "more slowly and with other last digits.",
            RuntimeWarning,
            stacklevel=2,
        )
        return False
    if os.environ.get("PYTHONSAFEPATH"):  # our commands set it
        # The current folder may be anybody's, and a .numba_config.yaml there could name a cache of pickles to load.
        numba.core.config._config_fname = os.devnull
        numba.core.config.reload_config()
    return not numba.config.DISABLE_JIT


def require_installed() -> None:
    """Refuse to go on where Numba cannot be loaded although the work was planned for it."""
    if not _installed():
        raise EnergyAlignError(
            "Numba can be loaded where this was started, but not here: install energyalign with the same extras on "
            "all machines, for example pip install 'energyalign[fast]'."
        )
