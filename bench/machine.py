"""The machine and the libraries that a table was measured with."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

_LIBRARIES = ("energyalign", "numpy", "scipy", "scikit-learn", "numba", "torch", "torchvision", "jenkspy")


def describe_machine() -> dict[str, object]:
    """Return processor, usable cores and memory, which make seconds comparable."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
    }


def installed_versions() -> dict[str, str]:
    """Return the versions of Python and of all measured libraries."""
    found = {"python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "missing"
    return found


def _processor() -> str:
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        for line in facts.read_text().splitlines():
            if line.startswith("model name"):
                name = line.split(":", 1)[1].strip()
                widest = next((width for width in ("avx512f", "avx2", "avx") if width in facts.read_text()), "no AVX")
                return f"{name}, {widest}"
    return platform.processor() or platform.machine()
