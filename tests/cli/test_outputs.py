"""No command overwrites its inputs, or one output with another, under any name of a file."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_inputs import save_model
from made_up_run import made_up_run
from photographs import make_photographs
from small_disk import mounted

pytestmark = pytest.mark.promise("No output overwrites an input", "pairs of files")

FIT = "fit logits.npy --labels labels.npy --counts counts.json"
TARGETS = "--classes classes.json --clusters clusters.json --target-prior prior.json"
COMMANDS = {
    "fit --out": (f"{FIT} {TARGETS} --out OUT",
                  ["logits.npy", "labels.npy", "counts.json", "classes.json", "clusters.json", "prior.json"]),
    "fit --report": (f"{FIT} --report OUT", ["logits.npy", "labels.npy", "counts.json"]),
    "fit a pattern": ("fit 'shards/*.npy' --target-logits 'more/*.npy' --out OUT", ["shards/b.npy", "more/c.npy"]),
    "fit --costs": (f"{FIT} --costs costs.json --out OUT", ["costs.json"]),
    "apply": ("apply logits.npy shards/b.npy --shifts shifts.json --out OUT",
              ["logits.npy", "shards/b.npy", "shifts.json"]),
    "onnx": ("onnx model.onnx --shifts shifts.json --probe probe.npz --out OUT",
             ["model.onnx", "shifts.json", "probe.npz"]),
    "report": ("report run --out OUT",
               ["run/.lock", "run/tensorboard/events.out", "run/rows.jsonl", "run/config.json",
                "run/test_logits.safetensors"]),
    "table": ("table longtail run --out OUT", ["run/rows.jsonl", "run/config.json"]),
    "figure": ("figure energies run --out OUT", ["run/rows.jsonl"]),
    "figure all": ("figure all run --out figures", ["run/rows.jsonl"]),
}  # fmt: skip
CASES = [(name, path) for name, (_, inputs) in COMMANDS.items() for path in inputs]


@pytest.fixture
def inputs(problem: Path, run: Any) -> Path:
    """Write the input files of all commands."""
    logits = np.load("logits.npy")
    for folder in ("shards", "more", "figures"):
        Path(folder).mkdir()
    for name in ("shards/a.npy", "shards/b.npy", "more/c.npy"):
        np.save(name, logits)
    Path("classes.json").write_text('["a", "b", "c"]')
    Path("clusters.json").write_text("[0, 1, 2]")
    Path("prior.json").write_text("[0.3, 0.3, 0.4]")
    Path("costs.json").write_text("[[0, 1, 1], [1, 0, 1], [1, 1, 0]]")
    assert run(*f"{FIT} --out shifts.json --quiet".split())[0] == 0
    save_model(Path("model.onnx"), n_classes=3)
    np.savez("probe.npz", x=np.ones((2, 5), np.float32))
    made_up_run(Path("run"), ["a", "b", "c"])
    Path("run/.lock").touch()
    Path("run/tensorboard").mkdir()
    Path("run/tensorboard/events.out").write_text("curves")
    return problem


def as_it_is(path: Path, _suffix: str) -> Path:
    return path


def soft_link(path: Path, suffix: str) -> Path:
    link = Path(f"soft{suffix}")
    link.symlink_to(path.absolute())
    return link


def hard_link(path: Path, suffix: str) -> Path:
    link = Path(f"hard{suffix}")
    os.link(path, link)
    return link


@pytest.mark.parametrize("name_of", [as_it_is, soft_link, hard_link])
@pytest.mark.parametrize(("name", "path"), CASES, ids=[f"{name} {path}" for name, path in CASES])
def test_an_input(
    inputs: Path, run: Any, files_in: Any, name: str, path: str, name_of: Callable[[Path, str], Path]
) -> None:
    command = COMMANDS[name][0]
    if name.startswith("figure"):
        if name_of is as_it_is:
            pytest.skip("a figure has another ending")
        out = name_of(Path(path), ".png")
        if name == "figure all":
            out = out.rename("figures/energies.png")
    else:
        out = name_of(Path(path), Path(path).suffix)
    before = files_in(inputs)
    code, _, told = run(*(word.strip("'").replace("OUT", str(out)) for word in command.split()))
    assert (code, files_in(inputs)) == (2, before)
    assert f"{out} is the same file as the input " in told
    assert path.rsplit("/", maxsplit=1)[-1] in told


def test_a_table_among_the_runs_is_replaced_by_the_same_command(inputs: Path, run: Any) -> None:
    Path("runs").mkdir()
    Path("run").rename("runs/run")
    for _ in range(2):
        code, _, told = run("table", "longtail", "runs", "--format", "json", "--out", "runs/table.json")
        assert code == 0, told


def test_another_output(inputs: Path, run: Any, files_in: Any) -> None:
    Path("page.html").write_text("old")
    os.link("page.html", "hard.json")
    Path("soft.json").symlink_to("new.html")
    before = files_in(inputs)
    for out, report in (
        ("same.html", "./same.html"),
        ("same.html", "SAME.html"),
        ("hard.json", "page.html"),
        ("soft.json", "new.html"),
    ):
        code, _, told = run(*FIT.split(), "--out", out, "--report", report)
        assert (code, files_in(inputs)) == (2, before)
        assert f"{report} is the same file as the output {out}: choose another name for the output." in told


def test_another_output_in_a_folder_with_two_names(inputs: Path, run: Any, files_in: Any) -> None:
    """With a bind mount, which resolving links does not reveal."""
    Path("one").mkdir()
    with mounted(inputs / "two", of=inputs / "one"):
        before = files_in(inputs)
        code, _, told = run(*FIT.split(), "--out", "one/same", "--report", "two/same")
        assert (code, files_in(inputs)) == (2, before)
    assert "two/same is the same file as the output one/same" in told


def test_a_word_that_is_no_file(inputs: Path, run: Any) -> None:
    """Ways to share shifts and class names are not input files, whatever the output is called."""
    for option, word in (("--clusters", "auto"), ("--classes", "a,b,c")):
        assert run(*FIT.split(), option, word, "--out", word, "--quiet")[0] == 0
        assert Path(word).stat().st_size


def test_standard_input_and_output_are_files_too(inputs: Path, shell: Any, files_in: Any) -> None:
    before = files_in(inputs)
    with Path("logits.npy").open("rb") as stream:
        done = shell("apply", "-", "--shifts", "shifts.json", "--out", "logits.npy", stdin=stream)
    assert (done.returncode, files_in(inputs)) == (2, before)
    assert b"logits.npy is the same file as the input -" in done.stderr


@pytest.mark.parametrize("command", ["demo", "sweep longtail --cell digits-lt-50", "longtail digits"])
def test_a_run_directory_is_no_folder_for_runs(inputs: Path, run: Any, files_in: Any, command: str) -> None:
    """Otherwise it would contain other runs, and its rows would be mixed with theirs."""
    before = files_in(inputs)
    code, _, told = run(*command.split(), "--out", "run")
    assert (code, files_in(inputs)) == (2, before)
    assert "run is a run directory itself, and run directories go below --out" in told


@pytest.mark.parametrize(
    ("data", "out"), [("photographs", "photographs/train"), ("photographs/train", "photographs/train/runs")]
)
@pytest.mark.parametrize(
    "command", ["longtail", "incremental", "sweep longtail --cell", "sweep incremental --steps 2 --cell"]
)
def test_runs_do_not_go_among_classes(
    problem: Path, run: Any, files_in: Any, command: str, data: str, out: str
) -> None:
    """The next command would read the runs as a class: in a folder without a split, every folder is a class."""
    photographs = make_photographs(problem / "photographs")
    for split in ("train", "test"):
        shutil.copytree(photographs / split / "cats", photographs / split / "birds")  # two steps need three classes
    before = files_in(problem)
    code, _, told = run(*command.split(), f"folder:{data}", "--out", out)
    assert (code, files_in(problem)) == (2, before)
    assert f" is in photographs/train, whose folders are classes of folder:{data}: give an --out outside" in told


def test_a_page_may_be_written_again_into_the_folder_of_its_run(inputs: Path, run: Any) -> None:
    for _ in range(2):
        assert run("table", "longtail", "run", "--format", "csv", "--out", "run/table.csv")[0] == 0
    assert json.loads(Path("run/config.json").read_text())
