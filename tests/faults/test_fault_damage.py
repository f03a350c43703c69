"""Truncated or changed files of a run: harmless, or refused by name."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fault import files_of
from safetensors.numpy import load

from energyalign.cli.main import main

pytestmark = [
    pytest.mark.faults,
    pytest.mark.promise("A damaged file of a run is detected", "damaged files"),
]

LONGTAIL = "longtail digits --head linear --corrector raw ea crt --epochs 2 --batch-size 64 --evidence-size 2 --out run"
INCREMENTAL = "incremental digits --steps 2 --learner distill --corrector ea --epochs 1 --batch-size 64 --out run"
N_FLIPS = 5


Finished = tuple[list[str], Path]


def finished(command: str, folder: Path) -> Finished:
    """Return the command and the folder of its finished run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(command.split()) == 0
    return command.split(), folder


@pytest.fixture(scope="module")
def longtail(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A run with a second stage."""
    return finished(LONGTAIL, tmp_path_factory.mktemp("longtail"))


@pytest.fixture(scope="module")
def incremental(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A run with a memory, and shifts that are fed back."""
    return finished(INCREMENTAL, tmp_path_factory.mktemp("incremental"))


def damages(content: bytes, rng: random.Random) -> list[tuple[str, bytes]]:
    """Return damaged contents: empty, cut at random, and with a random bit flipped, also in the first bytes."""
    made = [("empty", b""), ("cut", content[: rng.randrange(len(content))])]
    for share in [0.02] + [1.0] * N_FLIPS:
        place, bit = rng.randrange(max(1, int(share * len(content)))), rng.randrange(8)
        flipped = bytearray(content)
        flipped[place] ^= 1 << bit
        made.append((f"bit {bit} of byte {place} flipped", bytes(flipped)))
    return made


def means_the_same(name: str, there: bytes, wanted: bytes) -> bool:
    """Return whether an accepted file differs only in the name of its checksum or in white space."""
    if there == wanted:
        return True
    if name.endswith(".safetensors"):
        arrays, expected = load(there), load(wanted)
        return arrays.keys() == expected.keys() and all(np.array_equal(arrays[k], expected[k]) for k in expected)
    values, known = json.loads(there), json.loads(wanted)
    return all(values.get(key) == value for key, value in known.items() if key != "checksum")


@pytest.mark.parametrize("kind", ["longtail", "incremental"])
def test_every_file_damaged_in_every_way(
    kind: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    trials: Callable[[int], None],
) -> None:
    command, undamaged = request.getfixturevalue(kind)
    expected = files_of(undamaged)
    outcomes = {"used": 0, "refused": 0}
    for name in expected:
        if name.endswith(("commands.txt", "/checkpoints/epoch-00002-batch-000000.safetensors")) and "crt" not in name:
            continue  # nothing reads these: records for people, and the spare checkpoint
        for number, (how, content) in enumerate(damages(expected[name], random.Random(name))):
            folder = tmp_path / f"{Path(name).name}-{number}"
            shutil.copytree(undamaged, folder)
            (folder / name).write_bytes(content)
            if "/crt/" in name:  # the stage is not read while its row exists
                next(folder.rglob("rows.jsonl")).unlink()
            monkeypatch.chdir(folder)
            code, what = main(command), f"{name}, {how}"
            told = capsys.readouterr().err
            if code == 0:
                outcomes["used"] += 1
                found = files_of(folder)
                assert sorted(found) == sorted(expected), what
                assert [key for key in found if not means_the_same(key, found[key], expected[key])] == [], what
            else:
                outcomes["refused"] += 1
                last = told.strip().splitlines()[-1]
                assert last.startswith("energyalign: error: "), what
                assert str(Path(name).parent) in last, what
            shutil.rmtree(folder)
    assert min(outcomes.values()) > 5, outcomes
    trials(sum(outcomes.values()))


@pytest.fixture
def unfinished(longtail: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run until there are two checkpoints and nothing after them, as after a kill."""
    shutil.copytree(longtail[1], tmp_path / "cut")
    run = next((tmp_path / "cut").glob("run/*/seed-0"))
    shutil.rmtree(run / "crt")
    (run / "rows.jsonl").unlink()
    (run / "test_logits.safetensors").unlink()
    monkeypatch.chdir(tmp_path / "cut")
    return run


@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_checkpoint_is_told_and_the_one_before_it_used(
    seed: int, longtail: Finished, unfinished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newest = max((unfinished / "checkpoints").iterdir())
    how, content = damages(newest.read_bytes(), random.Random(seed))[seed % 7]
    newest.write_bytes(content)
    capsys.readouterr()
    assert main(longtail[0]) == 0
    told = capsys.readouterr().err
    assert "Resuming from the one before it." in told, how
    assert str(newest.relative_to(Path.cwd())) in told
    assert files_of(Path.cwd()) == files_of(longtail[1])


def test_checkpoints_that_are_all_damaged_are_no_reason_to_start_again(
    longtail: Finished, unfinished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (unfinished / "checkpoints").iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    before = files_of(Path.cwd())
    assert main(longtail[0]) == 2
    assert "can be used" in capsys.readouterr().err
    assert files_of(Path.cwd()) == before


def test_checkpoints_that_are_gone_are_told(
    longtail: Finished, unfinished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing records that they existed, so the training starts again, with a message."""
    shutil.rmtree(unfinished / "checkpoints")
    assert main(longtail[0]) == 0
    assert "There is no checkpoint in" in capsys.readouterr().err
    assert files_of(Path.cwd()) == files_of(longtail[1])


def test_checkpoints_that_are_gone_from_a_finished_run_are_missed(
    longtail: Finished, unfinished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(unfinished / "checkpoints")
    rows = next(longtail[1].glob("run/*/seed-0/rows.jsonl"))
    shutil.copy(rows, unfinished)
    assert main(longtail[0]) == 2
    assert "was finished, but its checkpoints are missing" in capsys.readouterr().err


@pytest.mark.parametrize("options", [["--seed", "1"], ["--epochs", "4"]], ids=["seed", "schedule"])
def test_a_checkpoint_of_another_config_is_not_taken(
    options: list[str], longtail: Finished, unfinished: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """For the same network, only the checkpoint's record shows that it differs."""
    assert main([*longtail[0], *options, "--out", str(tmp_path / "other")]) == 0
    foreign = max(tmp_path.glob("other/*/seed-*/checkpoints/*"))
    newest = max((unfinished / "checkpoints").iterdir())
    shutil.copy(foreign, newest)
    capsys.readouterr()
    assert main(longtail[0]) == 0
    assert f"{newest.name} belongs to a run with other settings" in capsys.readouterr().err
    assert files_of(Path.cwd()) == files_of(longtail[1])
