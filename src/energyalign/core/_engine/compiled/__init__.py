"""The two inner loops of the method, compiled by Numba for large inputs.

Numba is optional (``pip install 'energyalign[fast]'``). Without it, with ``NUMBA_DISABLE_JIT=1``, and for small inputs,
NumPy is used.
"""

from __future__ import annotations

import os
import warnings
from functools import cache
from importlib.util import find_spec

from energyalign.core.errors import EnergyAlignError

# Minimum number of logits for which loading Numba pays off: in one pass, and in many passes.
ONE_PASS = 1 << 27
MANY_PASSES = 1 << 23


def worthwhile(numbers: int, min_numbers: int) -> bool:
    """Return whether to use compiled loops for this many numbers.

    It depends only on the size and on what is installed, so that the same input gives the same bits.
    """
    return numbers >= min_numbers and _installed()


@cache
def _installed() -> bool:
    if find_spec("numba") is None:
        return False
    try:
        import numba
    except Exception as error:  # out of memory, or incompatible with NumPy or Python
        warnings.warn(
            f"Numba is installed but cannot be loaded ({type(error).__name__}: {error}): falling back to NumPy, "
            "which is slower and rounds differently.",
            RuntimeWarning,
            stacklevel=2,
        )
        return False
    if os.environ.get("PYTHONSAFEPATH"):  # set by our commands
        # Do not trust a .numba_config.yaml in the current folder: it could name a cache of pickles to load.
        numba.core.config._config_fname = os.devnull
        numba.core.config.reload_config()
    return not numba.config.DISABLE_JIT


def require_installed() -> None:
    """Raise if Numba cannot be loaded in this process, although the main process could load it."""
    if not _installed():
        raise EnergyAlignError(
            "Numba is available in the main process, but not in this one: install energyalign with the same extras on "
            "all machines, for example pip install 'energyalign[fast]'."
        )
