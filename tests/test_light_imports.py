"""What costs seconds to import is not imported by those who only look in."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import energyalign

HEAVY = {"torch", "torchvision", "sklearn", "scipy", "matplotlib", "pandas", "onnx", "onnxruntime"}
SOURCE = Path(energyalign.__file__).parents[1]


def imported_by(*arguments: str) -> set[str]:
    """The packages that `python arguments...` imports, as Python itself reports them."""
    result = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return {name.partition(".")[0] for name in re.findall(r"^import time:.*\|\s*(\S+)$", result.stderr, re.MULTILINE)}


def test_the_package_alone_is_light() -> None:
    imported = imported_by("-c", "import energyalign; energyalign.__version__; dir(energyalign)")
    assert "energyalign" in imported
    assert not imported & (HEAVY | {"numpy"})


@pytest.mark.parametrize(
    "arguments", [["--help"], ["fit", "--help"], ["apply", "--help"], ["onnx", "--help"], ["--version"]], ids=" ".join
)
def test_help_is_light(arguments: list[str]) -> None:
    imported = imported_by("-m", "energyalign.cli.main", *arguments)
    assert "energyalign" in imported
    assert not imported & HEAVY


def test_the_core_needs_no_heavy_library_to_be_there() -> None:
    assert not imported_by("-c", "from energyalign import FreeEnergy, Shifts, Clusters, fit_shifts") & HEAVY


@pytest.mark.parametrize(
    ("code", "package"),
    [
        ("import sklearn", "sklearn"),
        ("def f():\n    from scipy.special import logsumexp\nf()", "scipy"),
        ("from energyalign import EnergyAligner", "sklearn"),
        ("import energyalign, pandas", "pandas"),
    ],
    ids=["plain", "in a function", "through a name that is loaded when used", "beside ours"],
)
def test_a_heavy_import_is_found(code: str, package: str) -> None:
    assert package in imported_by("-c", code)
