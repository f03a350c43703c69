"""Every writing command, killed at random: each file is the old one or the complete new one, and the same command then
succeeds.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_inputs import save_inputs
from fault import ended, files_of
from killed_often import Whole, killed

from energyalign.core._io.atomic import is_leftover

pytestmark = [
    pytest.mark.faults,
    pytest.mark.promise("A killed command leaves every file either unchanged or complete", "kills"),
]

TRAINED = "digits --epochs 2 --batch-size 64 --evidence-size 2 --accelerator cpu"
# Each with its number of kills: many for fast commands, few for trainings.
COMMANDS = {
    "fit logits.npy --labels labels.npy --counts counts.json --evidence held-out --out new.json --report page.html": 40,
    "fit logits.npy --labels labels.npy --evidence held-out --jobs 2 --out new.json": 10,
    "apply logits.npy --shifts shifts.json --out corrected.csv": 30,
    "onnx model.onnx --shifts shifts.json --out aligned.onnx": 30,
    "report runs --out page.html": 20,
    "figure confusion runs --out figure.svg": 20,
    "figure all runs --out figures": 10,
    "table longtail runs --format csv --out table.csv": 30,
    f"longtail {TRAINED} --corrector raw ea crt --out trained": 12,
    f"incremental {TRAINED} --steps 2 --learner distill --corrector ea --out trained": 12,
    "sweep longtail --cell digits-lt-50 --method ce ea --seed 0 --epochs 1 --accelerator cpu --out trained": 6,
}
OLD = b"the one before"
GROWING = ("rows.jsonl", "commands.txt")  # replaced by the same with more lines
PASSING = {"checkpoints", "training"}  # temporary folders that the end does not have
RECORD = "sweep.json"  # of finished, running and waiting runs


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    save_inputs(folder)
    return folder


def results(folder: Path) -> dict[str, bytes]:
    """Return all files, including the inputs, which must stay unchanged."""
    return {
        name: content
        for name, content in files_of(folder).items()
        if not any(map(is_leftover, Path(name).parts)) and "/logs/" not in name and not name.endswith(RECORD)
    }


def random_kill(whole: Whole, seconds: float, rng: random.Random) -> dict[str, Any]:
    """Kill at a random time or, if the critical part is short, within a file operation."""
    if rng.random() < 0.5:
        return {"after": rng.uniform(0, seconds)}
    call = rng.choice(sorted(whole.calls))
    return {"kill": call, "at": rng.randint(1, whole.calls[call])}


def assert_old_or_whole(wanted: dict[str, bytes], found: dict[str, bytes], old: set[str]) -> None:
    for name, content in found.items():
        if name in wanted:
            lines = set(content.splitlines(keepends=True))
            is_begun = name.endswith(GROWING) and lines <= set(wanted[name].splitlines(keepends=True))
            assert is_begun or content in (wanted[name], *([OLD] if name in old else [])), name
        else:
            assert PASSING & set(Path(name).parts), name


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command.split()[:2]))
def test_killed_at_random(command: str, inputs: Path, tmp_path: Path, trials: Callable[[int], None]) -> None:
    shutil.copytree(inputs, tmp_path / "whole")
    begun = time.monotonic()
    whole = Whole.of(command.split(), tmp_path / "whole")
    seconds = time.monotonic() - begun
    wanted = results(tmp_path / "whole")
    made = wanted.keys() - results(inputs).keys()
    assert made
    rng, kills = random.Random(command), 0
    while kills < COMMANDS[command]:
        folder = tmp_path / "cut"
        shutil.copytree(inputs, folder)
        # Not into run directories, which must not contain other files.
        old = {name for name in made if "trained" not in name and rng.random() < 0.5}
        for name in old:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(OLD)
        if killed(whole, folder, random_kill(whole, seconds, rng)):
            kills += 1
            assert_old_or_whole(wanted, results(folder), old)
        code, told = ended(whole.arguments, folder)
        assert code == 0, told
        assert results(folder) == wanted
        shutil.rmtree(folder)
    trials(kills)
