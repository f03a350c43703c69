"""A small problem on disk, and fixtures that run the command as a user does."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from energyalign.cli.main import main

COUNTS = [400, 90, 12]


@pytest.fixture
def problem(tmp_path, monkeypatch):
    """Write held-out logits of a biased 3-class model, labels and training counts; change to their folder."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), 60)
    logits = rng.normal(size=(180, 3)) + 2.0 * np.eye(3)[labels] + np.log(COUNTS)
    np.save(tmp_path / "logits.npy", logits)
    np.save(tmp_path / "labels.npy", labels)
    (tmp_path / "counts.json").write_text(json.dumps(COUNTS))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(capsys):
    """Run the command in this process; return exit code, stdout and stderr."""

    def run_command(*arguments):
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_command


@pytest.fixture
def shell():
    """Run the command in a separate process."""

    def run_process(*arguments, **options):
        environment = {**os.environ, **options.pop("env", {})}
        command = [sys.executable, "-m", "energyalign.cli.main", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, env=environment, timeout=300, check=False, **options)

    return run_process


@pytest.fixture
def files_in():
    """Return every file below a folder with its content, to check that none changed."""

    def read(folder: Path) -> dict[str, bytes]:
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    return read
