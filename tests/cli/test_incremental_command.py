"""`energyalign incremental` as users run it: tables, run directories, interruptions without losses, and bad input."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from stopped_command import stopped

from energyalign.cli.main import build_parser, main
from energyalign.experiments.correctors import CORRECTORS
from energyalign.experiments.engine.request import Planned
from energyalign.experiments.incremental.config import IncrementalConfig, IncrementalRequest
from energyalign.experiments.incremental.learners import find_learner
from energyalign.experiments.incremental.memory import MemoryPlan
from energyalign.experiments.incremental.methods import METHODS
from energyalign.experiments.incremental.presets import PRESETS
from energyalign.experiments.train.run_directory import RunDirectory

SUMMARY = "\nAccuracy (%) on"  # the first words of the second table
TINY = ["--subset", "first:4", "--steps", "2", "--epochs", "1", "--evidence-size", "5"]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Use one thread, like the processes of the stopped runs."""
    torch.set_num_threads(1)


def incremental(*arguments: object) -> tuple[int, str, str]:
    """Run the command in this process; return exit code, stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["incremental", *map(str, arguments)])
    return code, out.getvalue(), err.getvalue()


def done(*arguments: object) -> tuple[str, str]:
    """Check that the command succeeded; return both outputs."""
    code, out, err = incremental(*arguments)
    assert code == 0, err
    return out, err


def rows_in(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "rows.jsonl").read_text().splitlines()]


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files except locks, curves with times, and temporary files of killed processes."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".part" and path.name != ".lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files if not path.match("**/tensorboard/*/*")}


def results(folder: Path) -> dict[str, bytes]:
    """Like `contents`, without the command lines, which contain the output folder."""
    return {name: data for name, data in contents(folder).items() if not name.endswith("commands.txt")}


def request(*arguments: str) -> IncrementalRequest:
    return IncrementalRequest.from_arguments(build_parser().parse_args(["incremental", *arguments]))


def plan(*arguments: str) -> list[Planned]:
    return request(*arguments).plan()


@pytest.fixture(scope="module")
def standard(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[object], Path, str]:
    """Run digits with fewer epochs; return the arguments, the run and the output."""
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("standard") / "out"
    arguments: list[object] = ["digits", "--epochs", 2, "--out", out]
    printed, _ = done(*arguments)
    return arguments, out / "distill-random-40-ea" / "seed-0", printed


def test_the_default_command_prints_both_tables(standard: Any) -> None:
    _, run, printed = standard
    steps, summary = printed.split(SUMMARY)
    assert steps.startswith(f"digits-il-5, small-cnn, cosine head, 2 epochs a step; runs in {run.parents[1]}\n")
    assert "Top-1 accuracy (%) on digits-il-5, all classes seen, after each of 5 steps" in steps
    assert re.search(r"^ method +1 +2 +3 +4 +5 *\n", steps, re.MULTILINE)
    for table in (steps, summary):
        assert re.findall(r"^ +(raw|ea|logit-adjustment|ea-marginal) ", table, re.MULTILINE) == [
            "raw",
            "logit-adjustment",
            "ea",
            "ea-marginal",
        ]
    for word in ("average", "with step 1", "last step", "old", "new", "forgetting", "top-5", "seeds"):
        assert word in summary
    last = next(row for row in rows_in(run) if (row["step"], row["corrector"]) == (5, "ea"))
    line = next(line for line in steps.splitlines() if line.split()[:1] == ["ea"])
    assert line.split()[-1].lstrip("*") == f"{100 * last['overall']:.1f}"


def test_and_writes_a_run_directory(standard: Any) -> None:
    _, run, _ = standard
    correctors = ["ea-marginal-two-50", "ea-two-50", "logit-adjustment", "raw"]
    of_step = ["network", "record", "test_logits", *(f"predictions/{name}" for name in correctors)]
    expected = {"config.json", "manifest.json", "rows.jsonl", "commands.txt", "environments.jsonl"}
    for step in range(1, 6):
        expected |= {f"step-0{step}/{name}.safetensors" for name in of_step}
        expected |= {f"step-0{step}/state.json"}
    assert set(contents(run)) == expected
    assert [(row["step"], row["corrector"]) for row in rows_in(run)] == [
        (step, name) for step in range(1, 6) for name in ("ea", "ea-marginal", "logit-adjustment", "raw")
    ]
    assert [path.name for path in run.parent.parent.iterdir()] == ["distill-random-40-ea"]


def test_the_same_command_again_trains_nothing_and_says_the_same(standard: Any) -> None:
    arguments, run, printed = standard
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in run.rglob("*") if path.is_file()}
    again, told = done(*arguments)
    assert again == printed
    assert "epoch" not in told
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in run.rglob("*") if path.is_file()} == before


def test_another_setting_in_the_same_folder_is_refused(standard: Any) -> None:
    arguments, run, _ = standard
    before = contents(run)
    code, out, err = incremental(*arguments, "--epochs", 3)
    assert (code, out) == (2, "")
    assert "recipe.epochs is 2 there and 3 here" in err
    assert contents(run) == before


def test_new_correctors_join_a_finished_run(standard: Any) -> None:
    _, run, _ = standard
    weights = {name: data for name, data in contents(run).items() if name.endswith("network.safetensors")}
    out, told = done("digits", "--corrector", "nme", "--from", run)
    assert "epoch " not in told
    assert re.findall(r"^ +(raw|ea|logit-adjustment|ea-marginal|nme) ", out, re.MULTILINE) == ["raw", "nme"] * 2
    assert {row["corrector"] for row in rows_in(run)} == {"ea", "ea-marginal", "nme", "logit-adjustment", "raw"}
    assert {name: data for name, data in contents(run).items() if name.endswith("network.safetensors")} == weights
    done("digits-il-5", "--from", run)  # named after the cell, with the standard correctors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["digits", "--epochs", "3"], "leave out --epochs;"),
        (["digits", "--order", "seed1993"], "leave out --order;"),
        (["digits", "--head", "linear", "--memory", "30"], "leave out --head, --memory;"),
        (["digits", "--steps", "5", "--subset", "all"], "leave out --steps, --subset;"),
        (["digits", "--fed-back", "raw", "--seed", "1"], "leave out --fed-back, --seed;"),
        (["digits", "--learner", "distill"], "leave out --learner;"),
        (["digits", "--method", "wa"], "leave out --method;"),
        (["digits", "--learned-scale", "--out", "x"], "leave out --learned-scale, --out;"),
        (["digits", "--corrector", "magic"], "unknown corrector 'magic'"),
        (["digits", "--corrector", "bic"], "bic needs images that were held out"),
        (["fashion-mnist"], "is a run on digits, not on fashion-mnist"),
    ],
)
def test_what_a_finished_run_cannot_change(options: list[str], message: str, standard: Any) -> None:
    _, run, _ = standard
    before = contents(run)
    code, out, err = incremental(*options, "--from", run)
    assert (code, out) == (2, "")
    assert message in err
    assert contents(run) == before


def test_a_run_is_asked_for_by_the_name_of_its_selection(tmp_path: Path) -> None:
    config = IncrementalConfig.from_preset(
        PRESETS["imagenet100-il-10"], find_learner("distill"), seed=0, memory=MemoryPlan("random", 2000)
    )
    RunDirectory(tmp_path).write_json("config.json", config.to_json())
    for name in ("imagenet100", "imagenet", "imagenet100-il-10"):
        assert f"the run in {tmp_path} is not finished" in incremental(name, "--from", tmp_path)[2]
    assert "is a run on imagenet, not on imagenet1000" in incremental("imagenet1000", "--from", tmp_path)[2]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], dict[str, bytes]]:
    """Return the options of a run of three steps, and its files without an interruption."""
    torch.set_num_threads(1)
    options = ["digits", "--subset", "first:6", "--steps", "3", "--epochs", "6", "--batch-size", "16"]
    options += ["--corrector", "ea", "logit-adjustment", "--fed-back", "ea", "--evidence-size", "5", "--out"]
    out = tmp_path_factory.mktemp("whole") / "out"
    done(*options, out)
    return options, results(out)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_stopped_in_mid_step_it_ends_with_the_bytes_of_a_whole_run(number: int, whole: Any, tmp_path: Path) -> None:
    options, expected = whole
    code, told = stopped(["incremental", *options, "cut"], tmp_path, number, stage="step-02/training")
    run = tmp_path / "cut" / "distill-random-40-ea-two-5" / "seed-0"
    assert (run / "step-01" / "state.json").exists()
    assert not (run / "step-02" / "state.json").exists()
    if number == signal.SIGINT:
        assert code == 130
        assert "Stopped and saved. To resume:\n  energyalign incremental digits --subset first:6 --steps 3" in told
        assert "Traceback" not in told
        assert "the run in " in incremental("digits", "--from", run)[2]  # is not finished
    else:
        assert code == -signal.SIGKILL
    _, told = done(*options, tmp_path / "cut")
    assert "step 1 of 3: epoch" not in told
    assert "step 2 of 3: epoch 1/6" not in told
    assert "step 3 of 3: epoch 1/6" in told
    assert results(tmp_path / "cut") == expected


@pytest.mark.parametrize(
    ("options", "folders"),
    [
        (["--learner", "fine-tune", "--corrector", "raw", "logit-adjustment", "ea", "il2m"], {"fine-tune-random-40"}),
        (
            ["--learner", "distill", "--corrector", "raw", "ea", "logit-adjustment", "--fed-back", "raw"],
            {"distill-random-40"},
        ),
        (
            ["--learner", "distill", "--corrector", "raw", "ea", "logit-adjustment", "--memory", "30"],
            {"distill-random-30", "distill-random-30-ea-two-5"},
        ),
        (["--learner", "fine-tune", "--head", "linear", "--corrector", "raw", "bic"], {
            "fine-tune-linear-random-40", "fine-tune-linear-random-40-held-out",
        }),
    ],
)  # fmt: skip
def test_rows_that_do_not_feed_back_share_one_training(options: list[str], folders: set[str], tmp_path: Path) -> None:
    out, _ = done("digits", *TINY, *options, "--out", tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == folders
    found = {(path.name, row["corrector"]) for path in tmp_path.iterdir() for row in rows_in(path / "seed-0")}
    asked = options[options.index("--corrector") + 1 :]
    asked = asked[: next((i for i, word in enumerate(asked) if word.startswith("--")), len(asked))]
    assert {corrector for _, corrector in found} == set(asked)
    assert {folder for folder, corrector in found if corrector == "raw"} == folders  # the control of every run
    assert len([line for line in out.partition(SUMMARY)[2].splitlines() if re.search(r"\d +1 *$", line)]) == len(found)


def test_a_subset_in_two_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done("digits", *TINY, "--corrector", "raw", "--order", "seed:3")
    run = tmp_path / "runs" / "digits-il-2-first-4-epochs-1-order-seed-3" / "distill-random-40" / "seed-0"
    first, second = rows_in(run)
    assert (first["cell"], first["n_old"], first["n_new"]) == ("digits-il-2-first-4", 0, 2)
    assert (second["n_old"], second["n_new"], second["n_steps"]) == (2, 2, 2)
    assert sorted(second["order"]) == [0, 1, 2, 3]
    assert second["order"] == np.random.RandomState(3).permutation(4).tolist()
    assert sum(second["counts"][:2]) == 40


def test_lwf_keeps_none_whatever_the_number(tmp_path: Path) -> None:
    done("digits", *TINY, "--method", "lwf", "--memory", "30", "--out", tmp_path)
    (run,) = tmp_path.iterdir()
    assert run.name == "lwf-linear-none"
    second = rows_in(run / "seed-0")[-1]
    assert (second["memory"], second["counts"][:2]) == ("none", [0, 0])


def test_several_seeds_are_one_line_and_seeds_asked_for_twice_count_once(tmp_path: Path) -> None:
    out, _ = done("digits", *TINY, "--corrector", "raw", "--seed", "0", "1", "1", "--out", tmp_path)
    assert [path.name for path in sorted((tmp_path / "distill-random-40").iterdir())] == ["seed-0", "seed-1"]
    steps, _, summary = out.partition(SUMMARY)
    (line,) = [line for line in steps.splitlines() if line.split()[:1] == ["raw"]]
    assert line.count("±") == 2
    assert "ours (2 seeds)" in line
    lines = summary.splitlines()
    (number,) = [number for number, line in enumerate(lines) if line.split()[:1] == ["raw"]]
    assert lines[number].split()[-1] == "2"
    assert lines[number + 1].count("±") == 7  # below the means, because the table is wide


@pytest.mark.parametrize(
    ("options", "folder", "correctors"),
    [
        ([], "distill-random-40-ea", ["raw", "ea", "logit-adjustment", "ea-marginal"]),
        (["--learner", "wa", "--corrector", "wa"], "wa-linear-random-40-wa", ["raw", "wa"]),
        (["--learner", "distill"], "distill-random-40-ea", ["raw", "ea"]),
        (["--learner", "lwf", "--corrector", "raw"], "lwf-linear-none", ["raw"]),
        (["--learner", "joint", "--corrector", "raw"], "joint-all", ["raw"]),
        (["--memory", "30"], "distill-random-30-ea", ["raw", "ea", "logit-adjustment", "ea-marginal"]),
        (["--memory", "herding", "--corrector", "ea"], "distill-herding-40-ea", ["raw", "ea"]),
        (["--memory", "herding:20", "--corrector", "ea"], "distill-herding-20-ea", ["raw", "ea"]),
        (["--method", "icarl", "--memory", "30"], "icarl-linear-herding-30", ["raw", "nme"]),
        (["--method", "bic"], "bic-linear-herding-40-bic", ["raw", "bic"]),
        (["--method", "ea", "--head", "linear"], "distill-linear-random-40-ea", ["raw", "ea"]),
        (["--method", "ea", "--corrector", "nme"], "distill-random-40-ea", ["raw", "ea", "nme"]),
        (["--method", "ea", "ea", "distill", "--fed-back", "raw"], "distill-random-40", ["raw", "ea"]),
        (["--method", "joint", "--memory", "30"], "joint-all", ["raw"]),
        (["--evidence-size", "7", "50", "--corrector", "ea"], "distill-random-40-ea-two-7", ["raw", "ea"]),
        (["--evidence-size", "7", "--learner", "fine-tune", "--corrector", "ea"], "fine-tune-random-40", ["raw", "ea"]),
    ],
)
def test_what_options_ask_for(options: list[str], folder: str, correctors: list[str]) -> None:
    (run,) = plan("digits", *options)
    assert (run.folder, run.correctors) == (folder, tuple(correctors))


def test_every_method_in_one_command_and_every_training_in_a_folder_of_its_own() -> None:
    runs = plan("digits", "--method", "all")
    assert len({run.folder for run in runs}) == len(runs)
    rows = {(run.config.learner.name, run.config.head, corrector) for run in runs for corrector in run.correctors}
    assert {(method.learner, method.corrector) for method in METHODS.values()} <= {(row[0], row[2]) for row in rows}
    # Fine-tuning, FT-th, IL2M, ScaIL and NCM are five rows of one training.
    (fine_tuned,) = [run for run in runs if run.config.learner.name == "fine-tune"]
    assert fine_tuned.correctors == ("raw", "logit-adjustment", "il2m", "scail", "ncm")
    assert len(runs) == len(METHODS) - 4


def write_classes(folder: Path, names: str, n: int) -> None:
    for k, name in enumerate(names):
        (folder / name).mkdir(parents=True)
        for i in range(n):
            noise = np.random.default_rng((k, i)).integers(0, 40, (12, 12, 3))
            Image.fromarray((noise + 40 * k).astype(np.uint8)).save(folder / name / f"{i}.png")


def test_a_users_own_images_in_uneven_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_classes(tmp_path / "images", "abcde", 10)
    options = ["--steps", "2", "--epochs", "1", "--backbone", "small-cnn", "--workers", "0", "--evidence-size", "3"]
    out, _ = done("folder:images", *options)
    assert "folder-images-il-2, small-cnn" in out
    folder = tmp_path / "runs" / "folder-images-il-2-epochs-1-backbone-small-cnn" / "distill-random-5-ea-two-3"
    last = rows_in(folder / "seed-0")[-1]
    assert (last["n_old"], last["n_new"], last["memory"]) == (3, 2, "random:5")  # one exemplar for each class
    assert last["counts"] == [2, 2, 1, 8, 8]


BAD = [
    (["digits", "--steps", "10"], "give --steps 9 or fewer"),
    (["digits", "--learner", "fine-tune", "--fed-back", "ea"], "fine-tune has no teacher"),
    (["digits", "--method", "lwf", "--corrector", "logit-adjustment"], "logit-adjustment cannot follow lwf"),
    (["digits", "--steps", "11"], "11 steps are too many for 10 classes"),
    (["digits", "--subset", "first:4", "--steps", "5"], "5 steps are too many for 4 classes"),
    (["digits", "--steps", "1"], "--steps must be >= 2"),
    (["digits", "--steps", "0"], "--steps must be >= 2"),
    (["folder:images", "--steps", "0"], "--steps must be >= 2"),
    (["digits", "--steps", "-3"], "--steps must be >= 2"),
    (["digits-il-5", "--steps", "2"], "leave --steps out"),
    (["digits", "--memory", "9"], "a memory of 9 exemplars is too small for 10 classes"),
    (["digits", "--memory", "0"], "needs a number of exemplars of 1 or more"),
    (["digits", "--memory", "random:many"], "expected a memory such as random:2000"),
    (["digits", "--memory", "none:5", "--corrector", "raw"], "takes no number of exemplars"),
    (["digits", "--memory", "lots"], "unknown memory 'lots'"),
    (["digits", "--method", "bic", "--memory", "12"], "give at least herding:20"),
    (["digits", "--learner", "magic"], "unknown learner 'magic'"),
    (["digits", "--corrector", "magic"], "unknown corrector 'magic'"),
    (["digits", "--corrector", "la-post-hoc"], "unknown corrector 'la-post-hoc': it is called logit-adjustment."),
    (["digits", "--corrector", "raw", "prior"], "unknown corrector 'prior': it is called logit-adjustment."),
    (["digits", "--learner", "distill", "--fed-back", "prior"], "it is called logit-adjustment."),
    (["digits", "--corrector", "crt"], "crt is for long-tailed runs (energyalign longtail): leave it out here"),
    (["digits", "--corrector", "raw", "--fed-back", "magic"], "unknown corrector 'magic'"),
    (["digits", "--order", "magic"], "unknown class order 'magic'"),
    (["digits", "--order", "icarl"], "'icarl' exists for 100 classes only, not for 10"),
    (["digits", "--subset", "magic"], "unknown subset 'magic'"),
    (["digits", "--subset", "first100"], "asks for 100 classes of a data set of 10"),
    (["digits", "--subset", "seed1993"], "is drawn from 1,000 classes, and this data set has 10"),
    (["digits", "--method", "magic"], "unknown method 'magic'"),
    (["digits", "--method", "ea", "--learner", "distill"], "give --method or --learner, not both"),
    (["digits", "--memory", "none", "--corrector", "ea"], "ea cannot follow distill, which keeps no memory here"),
    (
        ["digits", "--method", "ea", "lwf", "--corrector", "ea"],
        "ea cannot follow lwf, which keeps no memory here: give --memory random, or leave out lwf or ea.",
    ),
    (["digits", "--method", "ea", "--corrector", "bic"], "bic needs images that were held out"),
    (["digits", "--accelerator", "tpu"], "cannot train with --accelerator tpu"),
    (["digits", "--accelerator", "cpu", "--precision", "16-mixed"], "16-mixed needs a GPU"),
    (["digits", "--backbone", "alexnet"], "unknown backbone 'alexnet'"),
    (["digits", "--epochs", "0"], "epochs and batch size must be >= 1"),
    (["digits", "--seed", "0", "-1"], "the seed must be >= 0, got -1"),
    (["digits", "--evidence-size", "0"], "the evidence size must be >= 1 image of each class, got 0"),
    (["digits", "--scale", "nan"], "the scale must be a positive number, got nan"),
    (["digits", "--precision", "lots"], "--precision lots"),
    (["mnist"], "there is no preset for 'mnist'"),
    (["folder:nowhere"], "nowhere"),
    (["cifar100", "--data-root", "nowhere"], "cifar100 needs"),
    (["digits", "--from", "nowhere"], "nowhere is not a run directory"),
    (["folder:images", "--steps", "2"], "has no image of d,"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[" ".join(arguments) for arguments, _ in BAD])
def test_bad_input_is_one_line(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if arguments[0] == "folder:images":
        write_classes(tmp_path / "images" / "train", "abcd", 2)
        write_classes(tmp_path / "images" / "test", "abc", 1)
    before = contents(tmp_path)
    code, out, err = incremental(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1
    assert contents(tmp_path) == before
    assert {path.name for path in tmp_path.iterdir()} <= {"images"}


def test_what_no_training_could_serve_is_refused_before_the_first(tmp_path: Path) -> None:
    code, _, err = incremental("digits", "--method", "ea", "bic", "--memory", "12", "--out", tmp_path / "run")
    assert code == 2
    assert "herding:20" in err
    assert not (tmp_path / "run").exists()


def listed(kind: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["list", kind]) == 0
    return capsys.readouterr().out


def test_lists(capsys: pytest.CaptureFixture[str]) -> None:
    methods = listed("methods", capsys)
    for name, method in METHODS.items():
        composed = f"{method.learner} +{method.memory} +{method.corrector}"
        assert re.search(rf"^ +{name} +{composed} ", methods, re.MULTILINE), name
    (correctors,) = re.findall(r"^behind any training.*", methods, re.MULTILINE | re.DOTALL)
    for name, entry in CORRECTORS.items():
        assert re.search(rf"^ +{name} +{entry.serves} +{re.escape(entry.description[:30])}", correctors, re.MULTILINE)
    assert re.search(r"^ +nme +in steps +nearest mean", correctors, re.MULTILINE)
    presets = listed("presets", capsys)
    assert set(PRESETS) <= set(presets.split())
    assert re.search(r"^ +cifar100-il-10 +resnet32 +10 +250 +2000 +65\.2 ", presets, re.MULTILINE)


def examples(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    """Return the example lines of --help, without their explanations."""
    with pytest.raises(SystemExit) as end:
        main(["incremental", "--help"])
    assert end.value.code == 0
    lines = re.findall(r"^ +(energyalign incremental .*)$", capsys.readouterr().out, re.MULTILINE)
    return [shlex.split(re.split(r"\s{2,}", line)[0]) for line in lines]


def test_the_examples_of_help_can_be_run(capsys: pytest.CaptureFixture[str]) -> None:
    found = examples(capsys)
    assert len(found) >= 8
    for _, *arguments in found:
        asked = request(*arguments[1:])
        if not asked.source:
            assert asked.plan()
    (source,) = [words[words.index("--from") + 1] for words in found if "--from" in words]
    (run,) = plan("digits", "--method", "il2m")
    assert source == f"runs/{run.config.name}/{run.folder}/seed-0"
