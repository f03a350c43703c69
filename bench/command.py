"""Commands as users run them: each in a process of its own, with the bytecode of an installation."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

ENERGYALIGN = ("-m", "energyalign.cli.main")
# If this is set, every import would be compiled again.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def python(*arguments: object) -> Callable[[], object]:
    """Return a function that runs Python with these arguments."""
    command = [sys.executable, *map(str, arguments)]
    return lambda: subprocess.run(command, check=True, capture_output=True, env=ENVIRONMENT)


def energyalign(*words: object) -> Callable[[], object]:
    """Return a function that runs `energyalign` with these arguments."""
    return python(*ENERGYALIGN, *words)
