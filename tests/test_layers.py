"""Imports go down only: the contract in pyproject.toml holds, and violations are detected."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "energyalign"
CONTRACT = "Imports go down only"


def check_layers(project: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter on the package in `project`/src with the contract in `project`/pyproject.toml."""
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    return subprocess.run(
        [sys.executable, "-c", code, "--config", str(project / "pyproject.toml"), "--no-cache"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project / "src"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Copy the package and its contract to a folder where a test can break them."""
    shutil.copytree(SOURCE, tmp_path / "src" / "energyalign", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_project_keeps_its_contract() -> None:
    result = check_layers(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{CONTRACT} KEPT" in result.stdout
    assert "2 kept, 0 broken" in result.stdout


def test_a_copy_keeps_it_too(copy: Path) -> None:
    """So a violation in a copy comes from its change."""
    result = check_layers(copy)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("module", "text", "named"),
    [
        ("core/bad.py", "import energyalign.cli\n", "energyalign.core.bad -> energyalign.cli"),
        (
            "core/bad.py",
            "from energyalign.sklearn import aligner\n",
            "energyalign.core.bad -> energyalign.sklearn.aligner",
        ),
        (
            "core/bad.py",
            "def late() -> None:\n    from energyalign.files import shards\n",
            "energyalign.core.bad -> energyalign.files.shards",
        ),
        ("files/bad.py", "from energyalign import sklearn\n", "energyalign.files.bad -> energyalign.sklearn"),
        ("sklearn/bad.py", "import energyalign.demo\n", "energyalign.sklearn.bad -> energyalign.demo"),
        ("report/bad.py", "import energyalign.cli.main\n", "energyalign.report.bad -> energyalign.cli.main"),
        ("shed/__init__.py", "", "shed"),
    ],
    ids=[
        "core to cli",
        "core to sklearn",
        "in a function",
        "files to sklearn",
        "sklearn to demo",
        "report to cli",
        "a room nobody listed",
    ],
)
def test_a_violation_is_found_and_named(copy: Path, module: str, text: str, named: str) -> None:
    bad = copy / "src" / "energyalign" / module
    bad.parent.mkdir(exist_ok=True)
    bad.write_text(text)
    result = check_layers(copy)
    assert result.returncode == 1, result.stdout + result.stderr
    assert f"{CONTRACT} BROKEN" in result.stdout
    assert named in result.stdout


def test_imports_for_type_checkers_only_are_free(copy: Path) -> None:
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import energyalign.cli\n"
    (copy / "src" / "energyalign" / "core" / "good.py").write_text(text)
    assert check_layers(copy).returncode == 0
