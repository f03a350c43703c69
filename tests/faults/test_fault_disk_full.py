"""A full disk: one clear error, existing files stay, and the same command resumes when there is space."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from fault import ended, files_of
from killed_often import Whole, assert_ends_as, killed
from small_disk import SmallDisk

pytestmark = [
    pytest.mark.faults,
    pytest.mark.promise("A full or read-only disk damages no existing file", "disks"),
]

LONGTAIL = "longtail digits --head linear --corrector raw ea crt --epochs 3 --batch-size 64 --evidence-size 2 --out run"
INCREMENTAL = (
    "incremental digits --steps 2 --learner distill --corrector ea --epochs 1 --batch-size 64 --evidence-size 2 "
    "--out run"
)


@pytest.fixture(scope="module")
def longtail(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    return Whole.of(LONGTAIL.split(), tmp_path_factory.mktemp("longtail") / "whole")


@pytest.fixture(scope="module")
def incremental(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    return Whole.of(INCREMENTAL.split(), tmp_path_factory.mktemp("incremental") / "whole")


def assert_one_error(code: int, told: str) -> None:
    assert code == 2, told
    assert "Traceback" not in told
    lines = [line for line in told.splitlines() if line.startswith("energyalign: error: ")]
    assert len(lines) == 1, told
    assert "No space left on device" in lines[0]
    assert told.splitlines()[-1] == lines[0]


@pytest.mark.parametrize(
    ("kind", "leave"),
    [
        ("longtail", 0),  # not even for the config
        ("longtail", 8_192),  # not for the manifest
        ("longtail", 40_000),  # not for a checkpoint
        ("longtail", 500_000),  # for one
        ("longtail", 950_000),  # enough for two; a third one is written before the first is removed
        ("incremental", 20_000),  # too small for the config of the first training
        ("incremental", 300_000),  # too small for its checkpoint
        ("incremental", 520_000),  # too small for the network of the step
        ("incremental", 920_000),  # too small for the network of the second step
    ],
)
def test_a_run_that_meets_a_full_disk(kind: str, leave: int, request: pytest.FixtureRequest, disk: SmallDisk) -> None:
    whole: Whole = request.getfixturevalue(kind)
    work = disk.path / "work"
    work.mkdir()
    disk.fill(leave=leave)
    assert_one_error(*ended(whole.arguments, work))
    stopped = files_of(work)
    assert [name for name in stopped if name.endswith(".part")] == []
    assert_one_error(*ended(whole.arguments, work))
    again = files_of(work)
    assert {name: again[name] for name in stopped} == stopped, "a second try has harmed what was there"
    disk.empty()
    assert_ends_as(whole, work)


def test_a_finished_run_needs_no_space(longtail: Whole, disk: SmallDisk) -> None:
    work = disk.path / "work"
    assert_ends_as(longtail, work)
    disk.fill(leave=0)
    assert_ends_as(longtail, work)


def test_rows_that_have_no_room_leave_those_that_are_there(longtail: Whole, disk: SmallDisk) -> None:
    work = disk.path / "work"
    assert killed(longtail, work, {"kill": "replace", "of": "test_logits.safetensors"})
    for left in work.rglob("*.part"):
        left.unlink()
    disk.fill(leave=9 * 4096)  # six pages for logits, one for the first row, two for predictions
    code, told = ended(longtail.arguments, work)
    assert_one_error(code, told)
    assert "rows.jsonl" in told.splitlines()[-1]
    (rows,) = [content for name, content in files_of(work).items() if name.endswith("rows.jsonl")]
    assert [json.loads(line)["corrector"] for line in rows.splitlines()] == ["raw"]
    disk.empty()
    assert_ends_as(longtail, work)


def test_curves_without_room_do_not_stop_a_run(longtail: Whole, disk: SmallDisk, tmp_path: Path) -> None:
    """They have a disk of their own."""
    work = tmp_path / "work"
    assert killed(longtail, work, {"kill": "write", "at": 4})  # there is a run directory
    for curves in work.glob("run/*/seed-0/tensorboard"):
        shutil.rmtree(curves)
    (next(work.glob("run/*/seed-0")) / "tensorboard").symlink_to(disk.path)
    disk.fill(leave=0)
    assert_ends_as(longtail, work)
    code, told = ended(longtail.arguments, work)
    assert code == 0, told


@pytest.fixture
def results(longtail: Whole, tmp_path: Path) -> Path:
    """Return the files of a finished run."""
    assert_ends_as(longtail, tmp_path / "work")
    return tmp_path / "work" / "run"


@pytest.mark.parametrize(
    ("command", "name"),
    [("report {runs} --out {out}", "report.html"), ("figure energies {runs} --out {out}", "energies.svg")],
)
def test_a_report_without_room_leaves_the_one_before(
    command: str, name: str, results: Path, disk: SmallDisk, tmp_path: Path
) -> None:
    (disk.path / name).write_text("the one before")
    disk.fill(leave=8192)
    words = command.format(runs=results, out=disk.path / name).split()
    assert_one_error(*ended(words, tmp_path / "elsewhere"))
    assert (disk.path / name).read_text() == "the one before"
    assert sorted(path.name for path in disk.path.iterdir()) == sorted(["filler", name])
    disk.empty()
    code, told = ended(words, tmp_path / "elsewhere")
    assert code == 0, told
    assert (disk.path / name).stat().st_size > 8192


def test_fit_and_apply_without_room(disk: SmallDisk, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.save(tmp_path / "logits.npy", rng.normal(size=(2000, 50)))
    (tmp_path / "counts.json").write_text(json.dumps([1000 - 19 * k for k in range(50)]))
    fit = f"fit {tmp_path}/logits.npy --counts {tmp_path}/counts.json --out {{}}"
    code, told = ended(fit.format(tmp_path / "shifts.json").split(), tmp_path / "elsewhere")
    assert code == 0, told
    apply = f"apply {tmp_path}/logits.npy --shifts {tmp_path}/shifts.json --out {disk.path}/out.npy"
    for words, name in ((fit.format(disk.path / "out.json").split(), "out.json"), (apply.split(), "out.npy")):
        (disk.path / name).write_text("the one before")
        disk.fill(leave=0)
        assert_one_error(*ended(words, tmp_path / "elsewhere"))
        assert (disk.path / name).read_text() == "the one before"
        assert sorted(path.name for path in disk.path.iterdir()) == sorted(["filler", name])
        disk.empty()
        (disk.path / name).unlink()
