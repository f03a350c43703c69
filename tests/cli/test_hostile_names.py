"""Hostile names in files never control the terminal and never cause a traceback."""

import json
import mmap
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from made_up_run import made_up_run

from energyalign import Shifts
from energyalign.cli.main import main
from energyalign.core._io.shifts_json import seal

pytestmark = pytest.mark.promise("No name can control the terminal or cause a traceback", "hostile names")

COPY = "cat\x1b]52;c;ZXZpbA==\x07"  # puts "evil" into the clipboard
NAMES = [COPY, "\x1b[2J\x1b[31mdog\x9b1m", "bird\u202e\r"]


def fit(run, *more):
    return run("fit", "logits.npy", "--labels", "labels.npy", "--counts", "counts.json", *more)


@pytest.fixture
def hostile(problem):
    (problem / "counts.json").write_text(json.dumps(dict(zip(NAMES, [400, 90, 12], strict=True))))
    (problem / "classes.json").write_text(json.dumps(NAMES))
    labels = np.load("labels.npy")
    np.save("labels.npy", np.where(labels == 2, 1, labels))  # a warning names the class without evidence
    return problem


def controls(text):
    return set(text) & set("\x1b\x07\x9b\r\u202e")


@pytest.mark.parametrize("estimator", ["lse", "auto"])
def test_tables_and_warnings_of_fit_are_clean_and_the_file_is_exact(hostile, run, estimator):
    options = ("--classes", "classes.json", "--evidence", "held-out", "--estimator", estimator)
    code, out, err = fit(run, *options, "--clusters", "monotone", "--out", "shifts.json")
    assert code == 0, err
    assert "cat\ufffd]52;c;ZXZpbA" in out
    assert "warning" in err
    assert not controls(out + err)
    assert list(Shifts.load("shifts.json").class_names) == NAMES


def test_shifts_on_standard_output_are_exact(hostile, run, tmp_path):
    code, out, err = fit(run, "--classes", "classes.json", "--estimator", "prior", "--out", "-")
    assert code == 0, err
    (tmp_path / "piped.json").write_text(out)
    assert list(Shifts.load(tmp_path / "piped.json").class_names) == NAMES
    assert not controls(err)


@pytest.mark.parametrize(
    "words", [("fit", COPY), ("apply", "x.npy", "--shifts", COPY, "--out", "y.npy"), ("report", COPY)]
)
def test_errors_are_clean(problem, run, words):
    code, out, err = run(*words)
    assert code == 2
    assert "cat\ufffd]52" in err
    assert not controls(out + err)


def test_errors_of_the_parser_are_clean(capsys):
    with pytest.raises(SystemExit):
        main(["list", COPY])
    assert not controls(capsys.readouterr().err)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_a_pipe_that_lacks_some_characters(hostile, encoding):
    """As in a job whose locale is not UTF-8: our own tables have a plus-minus sign."""
    words = "fit logits.npy --labels labels.npy --counts counts.json --classes classes.json --out shifts.json"
    done = subprocess.run(
        [sys.executable, "-m", "energyalign", *words.split()], capture_output=True, check=False,
        env=os.environ | {"PYTHONIOENCODING": f"{encoding}:strict"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "cat?]52;c;ZXZpbA" in done.stdout.decode(encoding)
    assert not controls(done.stdout.decode(encoding) + done.stderr.decode(encoding))


def test_shifts_on_a_terminal_are_clean(hostile):
    words = "fit logits.npy --counts counts.json --classes classes.json --estimator prior --quiet --out -"
    mine, theirs = os.openpty()
    child = subprocess.Popen([sys.executable, "-m", "energyalign", *words.split()], stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    while part := read_terminal(mine):
        shown += part
    os.close(mine)
    assert child.wait() == 0
    assert '"name": "bird\N{REPLACEMENT CHARACTER}\\r"' in shown.decode()
    assert not controls(shown.decode().replace("\r\n", "\n"))


def read_terminal(descriptor):
    try:
        return os.read(descriptor, 2**16)
    except OSError:  # Linux, when the process has ended
        return b""


BROKEN = os.fsdecode(b"run\xff$x")  # valid for the system, but not as text


@pytest.mark.parametrize(
    "words",
    [
        ("report", BROKEN, "--out", BROKEN + ".html"),
        ("report", "run", "--title", BROKEN, "--out", "page.html"),
        ("figure", "groups", BROKEN, "--title", BROKEN, "--out", "figure.svg"),
        ("table", "longtail", BROKEN, "--out", BROKEN + ".txt"),
        ("compare", BROKEN),
        ("fit", BROKEN + ".npy", "--labels", "labels.npy", "--report", BROKEN + ".html"),
        ("fit", BROKEN + ".npy", "--labels", BROKEN),
        ("apply", BROKEN + ".npy", "--shifts", BROKEN, "--out", BROKEN + "2.npy"),
    ],
    ids=lambda words: " ".join(words[:3:2]).encode("ascii", "replace").decode(),
)
def test_names_of_files_and_folders_that_are_no_text(problem, run, words):
    shutil.copy("logits.npy", BROKEN + ".npy")
    for folder in ("run", BROKEN):
        made_up_run(Path(folder), ["a", "b", "c"])
    code, out, err = run(*words)
    assert code in (0, 2), err
    assert "Traceback" not in err
    assert not controls(out + err)


def test_half_a_character_in_a_class_name(problem, run, files_in):
    (problem / "classes.json").write_text('["cat", "dog", "bird\\ud800"]')
    before = files_in(problem)
    code, out, err = fit(run, "--classes", "classes.json", "--out", "shifts.json")
    assert (code, out) == (2, "")
    assert "the class name 'bird\\ud800' contains a lone surrogate (half a character)" in err
    assert "rename the class" in err
    assert files_in(problem) == before


def test_half_a_character_in_the_names_of_shifts(problem, run):
    (problem / "classes.json").write_text('["cat", "dog", "bird"]')
    fit(run, "--classes", "classes.json", "--out", "shifts.json")
    text = (problem / "shifts.json").read_text()
    (problem / "shifts.json").write_text(seal(text.replace("bird", "bird\\ud800")))
    code, _, err = run("apply", "logits.npy", "--shifts", "shifts.json", "--as", "labels", "--out", "labels.csv")
    assert code == 2
    assert "contains a lone surrogate (half a character)" in err


def test_a_pipe_in_a_run_folder_hangs_no_report(tmp_path):
    """It has no writer, so opening it normally would block."""
    (tmp_path / "run").mkdir()
    os.mkfifo(tmp_path / "run" / "config.json")
    done = subprocess.run(
        [sys.executable, "-m", "energyalign", "report", "run"],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "energyalign: error: run/config.json cannot be read: it is not a regular file" in done.stderr


def test_a_mistake_of_ours_is_told_without_escapes(problem, run, monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError(COPY)

    monkeypatch.setattr("energyalign.cli.fit_inputs.open_shards", fail)
    code, out, err = fit(run, "--out", "shifts.json")
    assert (code, out) == (1, "")
    assert err.startswith("Traceback (most recent call last):")
    assert "ZeroDivisionError: cat\N{REPLACEMENT CHARACTER}]52;" in err
    assert "\x1b" not in err


@pytest.mark.parametrize(
    ("take", "told"),
    [
        (lambda: np.empty(2**60, dtype=np.uint8), "Unable to allocate 1.00 EiB "),
        (lambda: torch.empty(2**60, dtype=torch.uint8), "[enforce fail at "),
        (lambda: mmap.mmap(-1, 2**60), "[Errno 12] Cannot allocate memory"),
    ],
    ids=["numpy", "torch", "system"],
)
def test_memory_that_is_not_there_is_one_line(problem, run, monkeypatch, files_in, take, told):
    def allocate(*_, **__):
        take()

    monkeypatch.setattr("energyalign.core.fitting.fit_shifts", allocate)
    monkeypatch.setattr("energyalign.cli.fit_inputs.open_shards", allocate)
    before = files_in(problem)
    code, out, err = fit(run, "--out", "shifts.json")
    assert (code, out) == (1, "")
    assert err.startswith("energyalign: error: not enough memory (" + told)
    assert err.count("\n") == 1
    assert files_in(problem) == before
