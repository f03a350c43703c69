"""`energyalign longtail` as users run it: a table, and Ctrl-C without losses."""

from __future__ import annotations

import contextlib
import io
import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from stopped_command import stopped

from energyalign.cli.main import build_parser, main
from energyalign.experiments.longtail.config import LongTailRequest


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Use one thread, like the processes of the stopped runs."""
    torch.set_num_threads(1)


def longtail(folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Run the command in this process and this folder; return exit code, stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["longtail", *arguments])
    return code, out.getvalue(), err.getvalue()


def done(folder: Path, *arguments: str) -> tuple[str, str]:
    """Check that the command succeeded; return both outputs."""
    code, out, err = longtail(folder, *arguments)
    assert code == 0, err
    return out, err


def test_interrupted_and_resumed_it_ends_with_the_bytes_of_a_whole_run(tmp_path: Path) -> None:
    options = ["digits", "--epochs", "25", "--corrector", "raw", "ea-marginal", "--evidence-size", "10", "--out"]
    out, err = done(tmp_path, *options, "whole")
    assert "ea-marginal" in out
    assert "manifest" in err
    code, told = stopped(["longtail", *options, "cut"], tmp_path, signal.SIGINT)
    assert code == 128 + signal.SIGINT
    assert "Stopped and saved. To resume:\n  energyalign longtail digits --epochs 25" in told
    done(tmp_path, *options, "cut")
    for name in ("rows.jsonl", "test_logits.safetensors"):
        assert (tmp_path / "cut" / "ce" / "seed-0" / name).read_bytes() == (
            tmp_path / "whole" / "ce" / "seed-0" / name
        ).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mnist"], "there is no preset for 'mnist'"),
        (["digits", "--corrector", "magic"], "unknown corrector 'magic'"),
        (["digits", "--corrector", "la-post-hoc"], "unknown corrector 'la-post-hoc': it is called logit-adjustment."),
        (["digits", "--corrector", "prior"], "unknown corrector 'prior': it is called logit-adjustment."),
        (
            ["digits", "--corrector", "bic"],
            "bic corrects new classes against old ones, and all classes of this run come at once",
        ),
        (["digits", "--backbone", "alexnet"], "unknown backbone 'alexnet'"),
        (["digits", "--epochs", "0"], "epochs and batch size must be >= 1"),
        (["cifar100", "--data-root", "nowhere"], "cifar100 needs"),
        (["digits", "--evidence-policy", "lots"], "unknown evidence policy 'lots'"),
        (["digits", "--evidence-size", "0"], "the evidence size must be >= 1 image of each class, got 0"),
        (["digits", "--seed", "-1"], "the seed must be >= 0, got -1"),
        (["digits", "--scale", "nan"], "the scale must be a positive number, got nan"),
        (["digits", "--imbalance", "0"], "must be >= 1, got 0"),
        (["digits-lt-50", "--imbalance", "10"], "leave --imbalance out"),
        (["digits", "--precision", "lots"], "--precision lots"),
        (["digits", "--accelerator", "abacus"], "--accelerator abacus"),
        (["digits", "--profile", "counts.json"], "cannot read the counts of counts.json"),
        (["digits", "--method", "magic"], "unknown method 'magic'"),
        (["digits", "--from", "nowhere"], "nowhere is not a run directory"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], message: str, tmp_path: Path, run: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run("longtail", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_options_reach_the_config(tmp_path: Path) -> None:
    arguments = [
        "digits",
        "--epochs",
        "1",
        "--imbalance",
        "10",
        "--head",
        "linear",
        "--optimizer",
        "adam",
        "--seed",
        "3",
    ]
    done(tmp_path, *arguments, "--corrector", "raw")
    # Another training gets another folder by default.
    folder = tmp_path / "runs" / "digits-lt-10-epochs-1-optimizer-adam"
    stored = json.loads((folder / "ce-linear" / "seed-3" / "config.json").read_text())
    assert (stored["imbalance"], stored["head"], stored["seed"]) == (10.0, "linear", 3)
    assert stored["recipe"]["optimizer"]["kind"] == "Adam"
    assert stored["name"] == "digits-lt-10"


def test_rate_and_weight_decay_reach_the_recipe_and_the_folder() -> None:
    words = ["longtail", "digits", "--lr", "0.01", "--weight-decay", "0"]
    request = LongTailRequest.from_arguments(build_parser().parse_args(words))
    optimizer = request.plan()[0].config.recipe.optimizer
    assert (optimizer.lr, optimizer.weight_decay) == (0.01, 0.0)
    assert request.out_folder.name == "digits-lt-50-lr-0.01-weight-decay-0.0"


@pytest.mark.parametrize(
    ("words", "epochs"),
    [
        (["imagenet-lt", "--optimizer", "sgd-plain"], 200),
        (["imagenet-lt-resnext50", "--optimizer", "sgd-plain"], 200),
        (["imagenet-lt", "--optimizer", "sgd-plain", "--epochs", "7"], 7),
        (["imagenet-lt", "--optimizer", "sgd-plain", "--quick"], 2),
        (["imagenet-lt", "--optimizer", "adam"], 90),
        (["imagenet-lt"], 90),
        (["cifar100", "--optimizer", "sgd-plain"], 200),
        (["inaturalist18", "--optimizer", "sgd-plain"], 90),
    ],
)
def test_the_papers_ablation_without_momentum_has_200_epochs(words: list[str], epochs: int) -> None:
    recipe = LongTailRequest.from_arguments(build_parser().parse_args(["longtail", *words])).preset.recipe
    assert recipe.epochs == epochs
    momentum = getattr(recipe.optimizer, "momentum", None)
    assert (momentum == 0.0) == ("sgd-plain" in words)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_whole_group_leaves_the_readers_of_images_alive(number: int, tmp_path: Path) -> None:
    """Terminals, `timeout` and schedulers send signals to the workers that read images, too."""
    rng = np.random.default_rng(0)
    for split, sizes in (("train", (12, 6)), ("test", (2, 2))):
        for label, n in enumerate(sizes):
            folder = tmp_path / "images" / split / f"class{label}"
            folder.mkdir(parents=True)
            for i in range(n):  # too large for memory's liking
                Image.fromarray(rng.integers(0, 255, (80, 90, 3), dtype=np.uint8)).save(folder / f"{i}.jpg")
    arguments = ["longtail", "folder:images", "--backbone", "small-cnn", "--epochs", "500", "--batch-size", "4"]
    code, told = stopped([*arguments, "--out", "run"], tmp_path, number, whole_group=True)
    assert code == 128 + number, told
    assert "Stopped and saved" in told
    assert "Traceback" not in told


def test_seeds_and_correctors_asked_for_twice_count_once(tmp_path: Path) -> None:
    out, _ = done(tmp_path, "digits", "--epochs", "1", "--seed", "0", "0", "--corrector", "raw", "raw")
    (line,) = [line for line in out.splitlines() if line.strip().startswith("raw")]
    assert "±" not in line


def test_what_no_training_could_serve_is_refused_before_the_first(tmp_path: Path) -> None:
    code, _, err = longtail(tmp_path, "digits", "--method", "ce", "cb-focal", "--corrector", "tde", "--out", "run")
    assert code == 2
    assert "TDE" in err
    assert not (tmp_path / "run").exists()


def test_a_corrector_joins_a_finished_run_of_any_learner_and_no_unfinished_one(tmp_path: Path) -> None:
    quick = ["--epochs", "2", "--evidence-size", "2", "--out", "run"]
    done(tmp_path, "digits", "--method", "focal", *quick)
    run = tmp_path / "run" / "focal" / "seed-0"
    done(tmp_path, "digits", "--corrector", "logit-adjustment", "--from", str(run))
    for checkpoint in (run / "checkpoints").glob("epoch-00003-*"):
        checkpoint.unlink()
    code, _, err = longtail(tmp_path, "digits", "--corrector", "raw", "--from", str(run))
    assert code == 2
    assert "is not finished" in err


def test_several_finished_runs_are_measured_alike(tmp_path: Path) -> None:
    quick = ["--epochs", "1", "--corrector", "raw", "--seed", "0", "1", "--out", "run"]
    done(tmp_path, "digits", *quick)
    runs = [tmp_path / "run" / "ce" / f"seed-{seed}" for seed in (0, 1)]
    before = [(run / "manifest.json").read_bytes() for run in runs]
    done(tmp_path, "digits", "--corrector", "logit-adjustment", "--from", *map(str, runs))
    for run, manifest in zip(runs, before, strict=True):
        rows = [json.loads(line) for line in (run / "rows.jsonl").read_text().splitlines()]
        assert [(row["corrector"], row["seed"]) for row in rows] == [
            (name, int(run.name[-1])) for name in ("logit-adjustment", "raw")
        ]
        assert (run / "manifest.json").read_bytes() == manifest
    done(tmp_path, "digits", "--imbalance", "20", "--epochs", "1", "--corrector", "raw", "--out", "other")
    other = tmp_path / "other" / "ce" / "seed-0"
    code, _, err = longtail(tmp_path, "digits", "--corrector", "raw", "--from", str(runs[0]), str(other))
    assert code == 2
    assert f"--from takes runs of one cell and precision: {runs[0]} is of digits-lt-50, {other} of digits-lt-20" in err


def test_counts_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "counts.json").write_text(json.dumps({str(k): 20 - k for k in range(10)}))
    done(tmp_path, "digits", "--epochs", "1", "--corrector", "raw", "--profile", "counts.json", "--out", "run")
    row = json.loads((tmp_path / "run" / "ce" / "seed-0" / "rows.jsonl").read_text())
    assert row["counts"] == [20 - k for k in range(10)]


def test_methods_share_one_training_and_can_be_added_to_it_later(tmp_path: Path) -> None:
    options = ["--evidence-size", "5"]
    done(tmp_path, "digits", "--epochs", "2", "--method", "ce", "ea", *options, "--out", "run")
    run = tmp_path / "run" / "ce" / "seed-0"
    weights = sorted((run / "checkpoints").iterdir())[-1].read_bytes()
    done(tmp_path, "digits", "--method", "la-post-hoc", *options, "--from", str(run))
    rows = [json.loads(line)["corrector"] for line in (run / "rows.jsonl").read_text().splitlines()]
    assert sorted(rows) == ["ea", "logit-adjustment", "raw"]
    assert sorted((run / "checkpoints").iterdir())[-1].read_bytes() == weights
    for wrong, message in (
        (
            ["digits", "--method", "focal"],
            "trained by ce; focal needs its own training: leave out --from, or that method; --corrector works",
        ),
        (["digits", "--epochs", "3"], "leave out --epochs"),
        (["digits", "--epochs", "0"], "leave out --epochs"),
        (["digits", "--seed", "4"], "leave out --seed"),
        (["fashion-mnist"], "is a run on digits, not on fashion-mnist"),
    ):
        code, _, err = longtail(tmp_path, *wrong, "--from", str(run))
        assert code == 2
        assert message in err
    for parent in (run.parent, run.parents[1]):
        _, _, err = longtail(tmp_path, "digits", "--corrector", "raw", "--from", str(parent))
        assert f"{parent} is not a run directory" in err
        assert err.endswith(f"give the folder of a seed, such as {run}.\n")


def test_the_same_command_again_trains_and_measures_nothing_and_says_the_same(tmp_path: Path) -> None:
    words = ["digits", "--epochs", "1", "--corrector", "raw", "ea", "--evidence-size", "5", "--out", "run"]
    printed, _ = done(tmp_path, *words)
    first, title = printed.splitlines()[:2]
    assert first == "digits-lt-50, small-cnn, cosine head, 1 epoch; runs in run"
    assert title == "Top-1 accuracy (%) on digits-lt-50"

    def files() -> dict[Path, tuple[int, bytes]]:
        paths = [path for path in (tmp_path / "run").rglob("*") if path.is_file() and "tensorboard" not in path.parts]
        return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in paths if path.name != ".lock"}

    before = files()
    assert {path.name for path in before} >= {"raw.safetensors", "ea-two-5.safetensors", "rows.jsonl"}
    again, told = done(tmp_path, *words)
    assert again == printed
    assert "epoch" not in told
    assert files() == before


def test_trainings_with_heads_of_their_own_are_told_with_them_and_correctors_behind_all_are_a_matrix(
    tmp_path: Path,
) -> None:
    words = ["digits", "--epochs", "1", "--method", "ce", "crt", "--corrector", "raw", "ea-auto", "--out", "run"]
    printed, errors = done(tmp_path, *words)
    for training, concern in (("ce", "sharing 'per-class' is used"), ("ce (linear)", "the classes deviate")):
        assert f"\nwarning: {training} + ea-auto, evidence two x 50, seed 0: {concern}" in errors  # names the row
    assert printed.startswith("digits-lt-50, small-cnn, heads cosine, linear, 1 epoch; runs in run\n")
    assert "\n\nTop-1 accuracy (%) on digits-lt-50: trainings and the correctors behind them\n" in printed
