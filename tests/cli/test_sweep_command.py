"""`energyalign sweep`: the plan of a table, and the table of finished runs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from energyalign.cli.main import build_parser, main
from energyalign.cli.sweep import planned_runs
from energyalign.experiments.engine.experiment import Work
from energyalign.experiments.incremental import learners, methods, paper
from energyalign.experiments.longtail import learners as longtail_learners
from energyalign.experiments.longtail import methods as longtail_methods
from energyalign.experiments.longtail import paper as longtail_paper
from energyalign.experiments.longtail.config import LongTailRequest
from energyalign.experiments.sweep.plan import PlannedRun
from energyalign.report.tables import TABLES, find_table

LONG_TAIL = longtail_methods.METHODS, longtail_learners.LEARNERS, longtail_paper.PAPER
INCREMENTAL = methods.METHODS, learners.LEARNERS, paper.PAPER
DIGITS = ["sweep", "longtail", "--cell", "digits-lt-50"]


def plan(*command: str, out: str = "out") -> list[PlannedRun]:
    arguments = build_parser().parse_args(["sweep", *command, "--out", out])
    runs, folder = planned_runs(arguments, find_table(arguments.table))
    assert folder == Path(out)
    return runs


def test_rows_that_differ_only_after_training_share_a_run() -> None:
    runs = {run.name: run for run in plan(*DIGITS[1:], "--method", "ce", "ea", "crt", "lws", "--seed", "3")}
    assert {name: run.correctors for name, run in runs.items()} == {
        "digits-lt-50/ce/seed-3": ("raw", "ea"),
        "digits-lt-50/ce-linear/seed-3": ("crt", "raw", "lws"),
    }
    assert runs["digits-lt-50/ce/seed-3"].command_line == (
        "energyalign longtail digits-lt-50 --method ce ea --corrector raw --seed 3 --out out/digits-lt-50 "
        "--accelerator auto --workers 2 --log tensorboard"
    )


def test_correctors_stand_behind_every_training_beside_the_raw_network() -> None:
    runs = plan(*DIGITS[1:], "--method", "ce", "mixup", "--corrector", "ea-auto", "--seed", "0")
    assert [run.correctors for run in runs] == [("raw", "ea-auto"), ("raw", "ea-auto")]


@pytest.fixture
def texts(tmp_path: Path) -> str:
    """Write features of ten samples of each of ten classes, 80 of them for training."""
    labels = np.repeat(np.arange(10), 10)
    vectors = np.random.default_rng(0).normal(size=(100, 8)) + np.eye(10, 8)[labels]
    np.savez(tmp_path / "texts.npz", x_train=vectors, y_train=labels)
    return f"features:{tmp_path / 'texts.npz'}"


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (["longtail"], "features-texts-npz/ce/seed-0"),
        (["longtail", "--imbalance", "4"], "features-texts-npz-lt-4/ce/seed-0"),
        (["matrix"], "features-texts-npz/ce/seed-0"),
        (["incremental"], "features-texts-npz-il-5/distill-random-10-ea/seed-0"),
        (["incremental", "--steps", "3"], "features-texts-npz-il-3/distill-random-10-ea/seed-0"),
    ],
)
def test_cells_may_be_a_users_own_data(texts: str, options: list[str], name: str) -> None:
    (run,) = plan(*options, "--cell", texts, "--seed", "0")
    assert run.name == name
    assert run.command[1] == texts
    assert "raw" in run.correctors
    assert "ea" in run.correctors
    assert run.hours is None


@pytest.mark.parametrize("options", [["longtail", "--imbalance", "4"], ["incremental", "--steps", "3"]])
def test_a_run_on_own_data_is_done_as_it_was_planned(texts: str, options: list[str], tmp_path: Path) -> None:
    rest = ["--method", "ea", "--seed", "0", "--epochs", "1"]
    (run,) = plan(*options, "--cell", texts, *rest, out=str(tmp_path / "o"))
    assert not run.is_done()
    assert main(run.command) == 0
    assert run.is_done()
    moved = tmp_path / "elsewhere" / "texts.npz"
    moved.parent.mkdir()
    (tmp_path / "texts.npz").rename(moved)
    (run,) = plan(*options, "--cell", f"features:{moved}", *rest, out=str(tmp_path / "o"))
    assert run.is_done()


def test_the_network_of_small_own_images_is_planned_as_it_is_trained(tmp_path: Path) -> None:
    """With --quick, the size of the images decides."""
    for label in ("a", "b"):
        (tmp_path / "images" / label).mkdir(parents=True)
        for i in range(5):
            Image.new("L", (8, 8), 20 * i).save(tmp_path / "images" / label / f"{i}.png")
    cell = f"folder:{tmp_path / 'images'}"
    (run,) = plan("longtail", "--cell", cell, "--quick", "--seed", "0", out=str(tmp_path / "out"))
    (trained,) = Work.of(LongTailRequest(dataset=cell, quick=True, method=("ce",))).runs.values()
    assert run.config["backbone"] == trained.config.backbone == "resnet8"


def test_the_cost_of_own_data_is_not_estimated(texts: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "longtail", "--cell", texts, "digits-lt-50", "--method", "ce", "--dry-run"]) == 0
    assert "The cost is not estimated for your own data." in capsys.readouterr().out


@pytest.mark.parametrize("name", [name for name, table in TABLES.items() if table.cells])
def test_every_line_that_the_paper_prints_is_measured_by_a_run(name: str) -> None:
    for cell in find_table(name).cells:
        runs = plan(name, "--cell", cell, "--seed", "0")
        assert len({run.folder for run in runs}) == len(runs)
        assert all(run.hours is not None and run.hours > 0 for run in runs)
        measured = {(run.config["learner"]["kind"], corrector) for run in runs for corrector in run.correctors}
        of_cell, trainings, printed = LONG_TAIL if cell in LONG_TAIL[2] else INCREMENTAL
        for line in printed[cell]:
            kind = type(trainings[of_cell[line].learner]).__name__
            assert (kind, of_cell[line].corrector) in measured, (cell, line)


def test_the_first_seed_of_all_comes_first() -> None:
    runs = plan("cifar-lt", "--seed", "0", "1", "--method", "ce", "--cell", "cifar10-lt-100", "cifar10-lt-50")
    assert [run.name for run in runs] == [
        "cifar10-lt-100/ce/seed-0", "cifar10-lt-50/ce/seed-0", "cifar10-lt-100/ce/seed-1", "cifar10-lt-50/ce/seed-1"
    ]  # fmt: skip


def test_cost_goes_with_epochs_branches_and_stages() -> None:
    """The cells of Table 10 are estimated at 0.7 hours for 200 epochs of plain training."""

    def hours(*options: str) -> list[float | None]:
        return [run.hours for run in plan("cifar-lt", "--cell", "cifar100-lt-100", "--seed", "0", *options)]

    assert hours("--method", "ce") == [pytest.approx(0.7)]
    assert hours("--method", "ce", "--epochs", "50") == [pytest.approx(0.175)]
    assert hours("--method", "bbn") == [pytest.approx(1.4)]
    assert hours("--method", "crt") == [pytest.approx(0.7 * 10 / 9)]
    assert hours("--method", "ce", "--backbone", "resnet8") == [None]


def test_dry_run_prints_the_plan_and_touches_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*DIGITS, "--method", "ce", "ea", "mixup", "--out", str(tmp_path / "out"), "--dry-run"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "Runs: 6, for 9 rows (trainings: 2, seeds of each: 3)" in printed
    assert "Done: 0, to do: 6" in printed
    assert "hours of one V100, from the size" in printed
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_that_is_done_prints_its_table_and_starts_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run,) = plan(*DIGITS[1:], "--method", "ce", "ea", "--seed", "0", "--epochs", "1", out=str(tmp_path))
    assert main(run.command) == 0
    command = [*DIGITS, "--method", "ce", "ea", "--seed", "0", "--epochs", "1", "--out", str(tmp_path)]
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert "Top-1 accuracy (%) on digits-lt-50" in out
    assert "1 of 1 runs were done before." in err
    assert not (tmp_path / "logs").exists()
    assert json.loads((tmp_path / "sweep.json").read_text())["runs"]["digits-lt-50/ce/seed-0"]["state"] == "done"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["nonsense"], "unknown table 'nonsense'"),
        (["longtail"], "has no default cells: choose with --cell"),
        (["cifar-lt", "--cell", "folder:x"], "has no cell 'folder:x'"),
        (["longtail", "--cell", "foldr:x"], "unknown data set 'foldr:x'"),
        (["cifar-lt", "--cell", "digits-lt-50"], "has no cell 'digits-lt-50'"),
        (["longtail", "--cell", "digits-il-5"], "the table longtail has no cell 'digits-il-5'"),
        ([*DIGITS[1:], "--imbalance", "20"], "digits-lt-50 has a fixed imbalance"),
        ([*DIGITS[1:], "--steps", "5"], "--steps is for runs of `energyalign incremental`, of which longtail has none"),
        ([*DIGITS[1:], "--devices", "0"], "--devices must be >= 1, got 0"),
        ([*DIGITS[1:], "--backbone", "resnet999"], "unknown backbone 'resnet999'"),
        ([*DIGITS[1:], "--gpus", "2"], "runs at a time with 2 GPUs each need"),
        ([*DIGITS[1:], "--method", "nonsense"], "unknown method 'nonsense'"),
        ([*DIGITS[1:], "--jobs", "0"], "--jobs must be >= 1, got 0"),
        ([*DIGITS[1:], "--retries", "-1"], "--retries must be >= 0, got -1"),
        ([*DIGITS[1:], "--address", "auto"], "--address needs --engine ray"),
    ],
)
def test_bad_input(
    options: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["sweep", *options]) == 2
    assert message in capsys.readouterr().err


def test_an_unknown_option_shows_the_usage_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([*DIGITS, "--profile", "step"])
    err = capsys.readouterr().err
    assert err.startswith("usage: energyalign sweep [-h]")
    assert err.endswith("energyalign sweep: error: unrecognized arguments: --profile step\n")
