"""A resumed training has the same bytes as an uninterrupted one."""

from __future__ import annotations

import io
import itertools
import math
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import nn
from toy_training import RECIPE, ToyBatches, bytes_of, toy_loss, toy_network, train_toy
from warm_process import WarmProcess

from energyalign.core._io.signals import Interrupted
from energyalign.core.errors import CannotGoOn
from energyalign.experiments.train.checkpoint import Position, save_checkpoint
from energyalign.experiments.train.loop import NotFinite
from energyalign.experiments.train.recipe import SGD, Adam, Constant, Recipe
from energyalign.experiments.train.reporter import Narrator, Pace, Reporter

HELPERS = str(Path(__file__).parents[2] / "helpers")


class OneBatch(ToyBatches):
    """Batches with a single batch per epoch."""

    n_batches = 1

    def epoch(self, number: int, *, start: int = 0, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        return itertools.islice(super().epoch(number, rank=rank, world_size=world_size), start, 1)


class StopAfter(Reporter):
    """Reporter that sends this process a signal after some batches."""

    def __init__(self, n_batches: int, number: int = signal.SIGINT) -> None:
        self.left, self.number = n_batches, number

    def batch_done(self, position: Any, lr: float) -> None:  # noqa: ARG002
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), self.number)


def test_it_learns_and_is_deterministic(tmp_path: Path) -> None:
    first, second = train_toy(tmp_path / "a"), train_toy(tmp_path / "b")
    assert bytes_of(tmp_path / "a") == bytes_of(tmp_path / "b")
    batch = next(ToyBatches().epoch(1))
    with torch.no_grad():
        learnt, fresh = (float(toy_loss(network.eval(), batch, 0)) for network in (first, toy_network()))
    assert learnt < 0.8 * fresh
    assert all(
        torch.equal(a, b) for a, b in zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    )


@pytest.mark.parametrize("after", [1, 3, 4, 5, 11, 15])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_finishes_the_batch_and_the_rest_follows(whole: Path, tmp_path: Path, after: int, number: int) -> None:
    with pytest.raises(Interrupted) as caught:
        train_toy(tmp_path / "cut", reporter=StopAfter(after, number))
    assert caught.value.signal_number == number
    newest = max((tmp_path / "cut" / "checkpoints").iterdir()).name
    assert newest == f"epoch-{1 + (after - 1) // 4:05d}-batch-{(after - 1) % 4 + 1:06d}.safetensors"
    network = train_toy(tmp_path / "cut")
    assert bytes_of(tmp_path / "cut") == bytes_of(whole)
    assert network.training


class StopAtTheEnd(Reporter):
    """Reporter that sends this process a signal after the last batch, when no further batch checks for it."""

    def epoch_done(self, position: Any, lr: float) -> None:  # noqa: ARG002
        if position.epoch == RECIPE.epochs:
            os.kill(os.getpid(), signal.SIGINT)


def test_a_signal_after_the_last_batch_is_not_lost(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(Interrupted) as caught:
        train_toy(tmp_path / "cut", reporter=StopAtTheEnd())
    assert caught.value.signal_number == signal.SIGINT
    assert bytes_of(tmp_path / "cut") == bytes_of(whole)


@pytest.mark.parametrize("optimizer", [SGD(0.1, momentum=0.0), SGD(0.1, nesterov=True), Adam(0.01)])
def test_every_optimiser_resumes_exactly(tmp_path: Path, optimizer: Any) -> None:
    recipe = Recipe(3, 10, optimizer, Constant())
    train_toy(tmp_path / "whole", recipe=recipe)
    with pytest.raises(Interrupted):
        train_toy(tmp_path / "cut", recipe=recipe, reporter=StopAfter(6))
    train_toy(tmp_path / "cut", recipe=recipe)
    assert bytes_of(tmp_path / "cut") == bytes_of(tmp_path / "whole")


def test_a_finished_run_is_not_trained_again(whole: Path) -> None:
    before = bytes_of(whole)

    def refuse(*_: Any) -> torch.Tensor:
        raise AssertionError("it trained")

    train_toy(whole, loss=refuse)
    assert bytes_of(whole) == before


def test_killed_outright_it_loses_at_most_an_epoch(whole: Path, tmp_path: Path) -> None:
    script = (
        f"import sys, time; sys.path.insert(0, {HELPERS!r})\n"
        "from pathlib import Path\nfrom toy_training import train_toy, toy_loss\n"
        "def slow(model, batch, epoch):\n    time.sleep(0.05)\n    return toy_loss(model, batch, epoch)\n"
        f"train_toy(Path({str(tmp_path / 'cut')!r}), loss=slow)\n"
    )
    (tmp_path / "script.py").write_text(script)
    process = WarmProcess([tmp_path / "script.py"], tmp_path, tmp_path / "logs")
    checkpoints = tmp_path / "cut" / "checkpoints"
    while not (checkpoints.exists() and any(checkpoints.glob("epoch-00002*.safetensors"))):
        assert process.poll() is None, process.stderr
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not any(checkpoints.glob("epoch-00005*"))
    train_toy(tmp_path / "cut")
    assert bytes_of(tmp_path / "cut") == bytes_of(whole)


def test_two_checkpoints_are_kept(whole: Path) -> None:
    names = sorted(path.name for path in (whole / "checkpoints").iterdir())
    assert names == ["epoch-00004-batch-000000.safetensors", "epoch-00005-batch-000000.safetensors"]


def test_a_damaged_checkpoint_is_told_and_the_one_before_it_used(whole: Path, tmp_path: Path) -> None:
    before = bytes_of(whole)
    newest = max((whole / "checkpoints").iterdir())
    newest.write_bytes(newest.read_bytes()[:-30])
    stream = io.StringIO()
    train_toy(whole, reporter=Narrator("toy", stream=stream))
    assert bytes_of(whole) == before
    assert "cannot be read" in stream.getvalue()
    assert "Resuming from the one before it." in stream.getvalue()
    assert "Resuming from epoch 4, batch 0." in stream.getvalue()


def test_a_loss_that_is_not_finite_stops_with_its_batch(tmp_path: Path) -> None:
    def broken(model: nn.Module, batch: Any, epoch: int) -> torch.Tensor:
        broken.calls += 1  # type: ignore[attr-defined]
        return toy_loss(model, batch, epoch) * (torch.nan if broken.calls == 7 else 1.0)  # type: ignore[attr-defined]

    broken.calls = 0  # type: ignore[attr-defined]
    with pytest.raises(NotFinite, match=r"the loss is nan in batch 2 of epoch 2\. .* try a smaller learning rate"):
        train_toy(tmp_path / "run", loss=broken)
    assert max((tmp_path / "run" / "checkpoints").iterdir()).name.startswith("epoch-00002-batch-000000")


@pytest.mark.parametrize("epoch", [2, RECIPE.epochs])
def test_a_network_that_is_not_finite_is_neither_saved_nor_called_finished(tmp_path: Path, epoch: int) -> None:
    """The last gradient is NaN while its loss is finite; in the last epoch no later batch would show it."""

    def breaking(model: nn.Module, batch: Any, now: int) -> torch.Tensor:
        breaking.calls += 1  # type: ignore[attr-defined]
        loss = toy_loss(model, batch, now)
        return loss + (loss * 0).sqrt() if breaking.calls == 4 * epoch else loss  # type: ignore[attr-defined]

    for _ in range(2):  # the same message when it is started again
        breaking.calls = 4 * (epoch - 1) if (tmp_path / "run").exists() else 0  # type: ignore[attr-defined]
        with pytest.raises(NotFinite, match=rf"the network is not finite after batch 3 of epoch {epoch} \(0\.weight"):
            train_toy(tmp_path / "run", loss=breaking)
        assert max((tmp_path / "run" / "checkpoints").iterdir()).name.startswith(f"epoch-0000{epoch}-batch-000000")


def test_a_training_that_begins_again_says_so(whole: Path) -> None:
    before = bytes_of(whole)
    for path in (whole / "checkpoints").iterdir():
        path.unlink()
    stream = io.StringIO()
    train_toy(whole, reporter=Narrator("toy", stream=stream))
    assert stream.getvalue().startswith(f"There is no checkpoint in {whole / 'checkpoints'}: training from the st")
    assert bytes_of(whole) == before


def test_plain_lines_where_nobody_watches(tmp_path: Path) -> None:
    stream = io.StringIO()
    train_toy(tmp_path / "run", reporter=Narrator("toy", scalars=tmp_path / "scalars", stream=stream))
    lines = stream.getvalue().splitlines()
    assert len(lines) == RECIPE.epochs
    assert lines[0].startswith("toy: epoch 1/4  loss ")
    assert "lr 0.05" in lines[0]
    assert all(re.search(r"  [\d,]+ samples/s  \d:\d\d:\d\d left$", line) for line in lines)
    assert lines[-1].endswith("  0:00:00 left")
    assert any((tmp_path / "scalars").iterdir())


def test_a_training_that_is_finished_already_leaves_no_file(tmp_path: Path) -> None:
    def narrator() -> Narrator:
        return Narrator("toy", scalars=tmp_path / "scalars", stream=io.StringIO())

    train_toy(tmp_path / "run", reporter=narrator())
    before = list((tmp_path / "scalars").iterdir())
    assert len(before) == 1
    train_toy(tmp_path / "run", reporter=narrator())
    assert list((tmp_path / "scalars").iterdir()) == before


def test_an_epoch_of_one_batch_has_a_speed(tmp_path: Path) -> None:
    stream = io.StringIO()
    narrator = Narrator("toy", scalars=tmp_path / "scalars", stream=stream)
    train_toy(tmp_path / "run", batches=OneBatch(), reporter=narrator)
    assert "nan" not in stream.getvalue()
    assert stream.getvalue().count(" samples/s  ") == RECIPE.epochs
    events = EventAccumulator(str(tmp_path / "scalars")).Reload()
    for name in ("loss", "lr", "images per second"):
        assert [event.step for event in events.Scalars(name)] == [1, 2, 3, 4]
        assert all(math.isfinite(event.value) and event.value > 0 for event in events.Scalars(name))


def test_speed_and_time_left_are_those_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of four epochs of ten batches are done already; from then on a batch of 8 samples takes two seconds."""
    now = [100.0]
    monkeypatch.setattr("energyalign.experiments.train.reporter.time.monotonic", lambda: now[0])
    pace = Pace(4, 10, Position(3, 5, 1.0, 40))
    assert (pace.batches_done, pace.speed, pace.seconds_left) == (25, None, None)
    now[0] += 2.0
    pace.batch_done(Position(3, 6, 1.0, 48))
    assert (pace.batches_done, pace.speed, pace.seconds_left) == (26, 4.0, 28.0)
    pace.epoch_done()
    now[0] += 4.0
    pace.batch_done(Position(4, 1, 1.0, 8))
    assert pace.speed == 2.0


def test_interrupted_at_the_end_of_an_epoch_there_is_no_speed_to_tell(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        train_toy(tmp_path / "run", reporter=StopAfter(4))
    stream = io.StringIO()
    train_toy(tmp_path / "run", reporter=Narrator("toy", scalars=tmp_path / "scalars", stream=stream))
    lines = stream.getvalue().splitlines()
    assert lines[0] == "Resuming from epoch 1, batch 4."
    assert re.fullmatch(r"toy: epoch 1/4  loss \d\.\d+  lr 0\.05", lines[1])
    assert "samples/s" in lines[2]


def test_two_processes_train_as_one_would(tmp_path: Path) -> None:
    """Two ranks of a process group train on parts of every batch, write one checkpoint, and have the losses and weights
    of one process.

    Of a batch of three samples, one rank has two and the other one; all samples must have equal weight.
    """
    script = f"""
import sys; sys.path.insert(0, {HELPERS!r})
from pathlib import Path
import torch.nn as nn
from lightning_fabric import Fabric
from toy_training import ToyBatches, RECIPE, toy_loss
from energyalign.experiments.train.loop import TrainingLoop
from energyalign.experiments.train.randomness import seed_torch
from energyalign.experiments.train.reporter import Narrator
from energyalign.experiments.train.run_directory import open_run

class Uneven(ToyBatches):
    def epoch(self, number, *, start=0, rank=0, world_size=1):
        for batch in super().epoch(number, start=start):
            yield tuple(part[:3][rank::world_size] for part in batch)

def work(fabric, folder):
    seed_torch(0, "network")
    with open_run(Path(folder) / "run", {{"what": "toy"}}, fabric) as run:
        with open(Path(folder) / f"told{{fabric.global_rank}}.txt", "w") as stream:
            TrainingLoop(fabric, nn.Linear(5, 3), batches=Uneven(), loss=toy_loss, recipe=RECIPE, run=run, seed=3,
                     reporter=Narrator("toy", stream=stream)).finish()

if __name__ == "__main__":
    devices, folder = int(sys.argv[1]), sys.argv[2]
    fabric = Fabric(accelerator="cpu", devices=devices, strategy="ddp_fork" if devices > 1 else "auto")
    fabric.launch(work, folder) if devices > 1 else work(fabric, folder)
"""
    (tmp_path / "script.py").write_text(script)
    for devices in (1, 2):
        folder = tmp_path / f"with{devices}"
        folder.mkdir()
        process = WarmProcess([tmp_path / "script.py", devices, folder], tmp_path, tmp_path / "logs")
        assert process.wait() == 0, process.stderr
    told = [(tmp_path / "with2" / f"told{rank}.txt").read_text() for rank in (0, 1)]
    alone = (tmp_path / "with1" / "told0.txt").read_text()

    def losses(text: str) -> list[str]:
        return [line.split("loss ")[1].split()[0] for line in text.splitlines()]

    assert losses(told[0]) == losses(told[1])
    assert [float(a) for a in losses(told[0])] == pytest.approx([float(a) for a in losses(alone)], abs=2e-4)
    one, two = (load_file(max((tmp_path / f"with{n}" / "run" / "checkpoints").iterdir())) for n in (1, 2))
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, rtol=0, atol=1e-6)


def test_a_checkpoint_follows_a_folder_that_is_moved_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, away = tmp_path / "run", tmp_path / "away"

    def move_and_save(*arguments: Any, **options: Any) -> Path:
        if path.exists():
            path.rename(away)
        return save_checkpoint(*arguments, **options)

    monkeypatch.setattr("energyalign.experiments.train.loop.save_checkpoint", move_and_save)
    with pytest.raises(CannotGoOn, match=re.escape(f"{path} was moved to {away} during its run. Everything is saved")):
        train_toy(path)
    assert len(list((away / "checkpoints").iterdir())) == 1
    assert not path.exists()
