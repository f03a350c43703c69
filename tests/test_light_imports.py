"""Slow libraries are not imported before they are needed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from made_up_run import made_up_run

import energyalign

HEAVY = {"torch", "torchvision", "sklearn", "scipy", "matplotlib", "pandas", "onnx", "onnxruntime"}
TRAINING = ("torch", "torchvision", "lightning_fabric")
SOURCE = Path(energyalign.__file__).parents[1]


def imported_by(*arguments: str) -> set[str]:
    """Return the packages that `python arguments...` imports, as reported by Python."""
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


def test_the_packaged_logits_take_numpy_alone() -> None:
    imported = imported_by("-c", "from energyalign.datasets import load_cifar100_lt; load_cifar100_lt()")
    assert "numpy" in imported
    assert not imported & HEAVY


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


@pytest.fixture(scope="module")
def without_training(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder of modules that replace training libraries and fail on import."""
    folder = tmp_path_factory.mktemp("refusing")
    for name in TRAINING:
        (folder / f"{name}.py").write_text(f"raise RuntimeError('{name} was imported')")
    return folder


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a synthetic run."""
    return made_up_run(tmp_path_factory.mktemp("stored") / "run", ["cat", "dog", "eel", "fox"]).path


def ended(refusing: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a process in which training libraries cannot be imported."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(refusing), str(SOURCE)])},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", TRAINING)
def test_what_trains_is_refused_there(without_training: Path, name: str) -> None:
    assert f"{name} was imported" in ended(without_training, "-c", f"import {name}").stderr


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("list methods", "la-post-hoc"),
        ("list datasets", "cifar100"),
        ("list presets", "cifar100-lt-100"),
        ("list tables", "cifar-lt"),
        ("list figures", "matrix"),
        ("sweep cifar-lt --dry-run", "hours of one V100, from the size"),
        ("sweep cifar100-il-10 --dry-run", "hours of one V100, from the size"),
        ("table longtail RUN", "Top-1 accuracy (%) on made-up"),
        ("table matrix RUN --format csv", "raw"),
        ("table metrics RUN", "Accuracy and calibration on made-up"),
        ("compare RUN --rows raw ea", "B against A on made-up"),
        ("figure FIGURE RUN --out OUT/figure.svg", "Wrote "),
        ("report RUN --out OUT/report.html", "Wrote "),
    ],
)
def test_looking_needs_nothing_that_trains(
    without_training: Path, stored: Path, tmp_path: Path, command: str, printed: str
) -> None:
    words = command.replace("FIGURE", "confusion").replace("RUN", str(stored)).replace("OUT", str(tmp_path)).split()
    result = ended(without_training, "-m", "energyalign.cli.main", *words)
    assert result.returncode == 0, result.stderr
    assert printed in result.stdout


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("data check mnist", "unknown data set 'mnist'"),
        ("sweep cifar-lt --method nonsense", "unknown method 'nonsense'"),
        ("table longtail nowhere", "there is no such folder"),
    ],
)
def test_nor_does_being_told_of_a_wrong_name(without_training: Path, command: str, message: str) -> None:
    result = ended(without_training, "-m", "energyalign.cli.main", *command.split())
    assert result.returncode == 2, result.stderr
    assert message in result.stderr
