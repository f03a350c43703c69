"""`list`, `--help`, `--version`, and the progress bar."""

import os
import pty
import subprocess
import sys

import numpy as np
import pytest

import energyalign
from energyalign.core.estimators import ESTIMATORS


def test_list_methods_names_all_estimators(run):
    code, out, _ = run("list", "methods")
    assert code == 0
    for name, entry in ESTIMATORS.items():
        assert name in out
        assert entry.description in out


def test_every_listed_method_runs(problem, run):
    for name in [*ESTIMATORS, "auto"]:
        assert run("fit", "logits.npy", "--counts", "counts.json", "--estimator", name, "--quiet")[0] == 0


@pytest.mark.parametrize(
    ("kind", "word"), [("datasets", "digits"), ("presets", "cifar100-lt-100"), ("tables", "cifar-lt")]
)
def test_list_says_what_there_is(run, kind, word):
    code, out, _ = run("list", kind)
    assert code == 0
    assert word in out


@pytest.mark.parametrize("command", [[], ["fit"], ["apply"], ["demo"], ["list"]])
def test_help_has_an_example(capsys, run, command):
    with pytest.raises(SystemExit) as exit_info:
        run(*command, "--help")
    assert exit_info.value.code == 0
    assert "example" in capsys.readouterr().out


def test_version(capsys, run):
    with pytest.raises(SystemExit):
        run("--version")
    assert capsys.readouterr().out == f"energyalign {energyalign.__version__}\n"


def test_python_runs_the_package_as_the_command():
    command = [sys.executable, "-m", "energyalign"]
    right = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    assert (right.returncode, right.stdout) == (0, f"energyalign {energyalign.__version__}\n")
    wrong = subprocess.run([*command, "list", "birds"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert "energyalign list: error: argument KIND: invalid choice: 'birds'" in wrong.stderr


def test_a_terminal_sees_a_progress_bar_and_a_pipe_does_not(problem, shell):
    rng = np.random.default_rng(0)
    np.save("larger.npy", rng.normal(size=(400_000, 10)).astype(np.float32))
    arguments = ["fit", "larger.npy", "--estimator", "lse", "--clusters", "per-class"]
    assert shell(*arguments).stderr == b""
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "energyalign.cli.main", *arguments], stderr=child, stdout=subprocess.DEVNULL
    )
    os.close(child)
    seen = b""
    while True:
        try:
            part = os.read(parent, 65536)
        except OSError:
            break
        if not part:
            break
        seen += part
    os.close(parent)
    assert process.wait(timeout=120) == 0
    assert b"reading logits" in seen
