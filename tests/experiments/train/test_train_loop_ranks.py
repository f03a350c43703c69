"""A training with two real processes: every sample once, one writer, equal networks, and resuming with as many."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional as F
from toy_training import RECIPE, bytes_of, train_toy
from two_processes import in_processes

from energyalign import EnergyAlignError

# Batch normalisation and dropout: they are computed per process, and the statistics of the first are kept.
TRAINED = """
from safetensors.torch import save_file
from torch.nn import functional as F
from toy_training import RECIPE, ToyBatches, toy_loss, toy_network
import energyalign.core._io.atomic as atomic
from energyalign.core._io.signals import Interrupted
from energyalign.experiments.train.loop import TrainingLoop
from energyalign.experiments.train.reporter import Reporter
from energyalign.experiments.train.run_directory import open_run

class Told(Reporter):
    def __init__(self, stop_at):
        self.samples, self.left = [], stop_at
    def batch_done(self, position, lr):
        self.samples.append(position.n_samples)
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGINT)

def train(fabric, folder, stop_at=0):
    network, told = toy_network(), Told(stop_at)
    with open_run(folder, {"what": "toy"}, fabric) as run:
        training = TrainingLoop(
            fabric, network, batches=ToyBatches(), loss=toy_loss, recipe=RECIPE, run=run, seed=3, reporter=told
        )
        try:
            training.finish()
        except Interrupted as stop:
            told.samples.append(str(stop))
    return network, told.samples

def work(fabric, folder):
    rank, written = fabric.global_rank, []
    replace = os.replace
    os.replace = lambda old, new: (written.append(Path(new).name), replace(old, new))
    network, samples = train(fabric, folder / "whole")
    save_file(network.state_dict(), folder / f"network{rank}.safetensors")
    # The second is told to stop in the middle of an epoch, the first at the end of one.
    cut = [train(fabric, folder / "cut", stop_at)[1] for stop_at in (rank * 6, (1 - rank) * 2, 0)]
    (folder / f"told{rank}.json").write_text(json.dumps([written, samples, cut]))
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train with two processes: a complete run, and one that was stopped twice."""
    folder = tmp_path_factory.mktemp("two")
    in_processes(TRAINED, folder)
    return folder


def told(folder: Path) -> list[Any]:
    return [json.loads((folder / f"told{rank}.json").read_text()) for rank in range(2)]


def test_every_sample_is_seen_once(trained: Path) -> None:
    for _, samples, _ in told(trained):
        assert samples == [10, 20, 30, 40] * RECIPE.epochs


def test_both_end_with_the_network_of_the_checkpoint(trained: Path) -> None:
    stored = load_file(max((trained / "whole" / "checkpoints").iterdir()))
    for rank in range(2):
        network = load_file(trained / f"network{rank}.safetensors")
        for name, value in network.items():
            assert torch.equal(stored[f"model/{name}"], value), name


def test_one_of_them_writes(trained: Path) -> None:
    (first, *_), (second, *_) = told(trained)
    assert second == []
    whole = first[: first.index("config.json", 1)]
    assert whole == ["config.json"] + [f"epoch-{epoch:05d}-batch-000000.safetensors" for epoch in range(2, 6)]


def test_stopped_on_any_rank_and_resumed_it_ends_with_the_same_bytes(trained: Path) -> None:
    for _, _, cut in told(trained):
        assert cut[0] == [10, 20, 30, 40, 10, 20, "SIGINT"]
        assert cut[1] == [30, 40, "SIGINT"]
        assert cut[2] == [10, 20, 30, 40] * 2
    assert bytes_of(trained / "cut") == bytes_of(trained / "whole")


def test_another_number_of_processes_is_refused(trained: Path, tmp_path: Path) -> None:
    checkpoints = trained / "whole" / "checkpoints"
    (tmp_path / "checkpoints").mkdir()
    unfinished, finished = sorted(checkpoints.iterdir())
    (tmp_path / "config.json").write_text((trained / "whole" / "config.json").read_text())
    (tmp_path / "checkpoints" / unfinished.name).write_bytes(unfinished.read_bytes())
    before = bytes_of(tmp_path)
    with pytest.raises(EnergyAlignError, match=r"began with 2 processes and cannot resume with 1: .* Start 2 again"):
        train_toy(tmp_path)
    assert bytes_of(tmp_path) == before
    (tmp_path / "checkpoints" / finished.name).write_bytes(finished.read_bytes())
    network = train_toy(tmp_path)  # there is nothing left to do
    for name, value in network.state_dict().items():
        assert torch.equal(load_file(finished)[f"model/{name}"], value)


WEIGHTED = """
from safetensors.torch import save_file
from energyalign.experiments.losses.cross_entropy import weighted_cross_entropy

def work(fabric, folder):
    rank, n_ranks = fabric.global_rank, fabric.world_size
    network = torch.nn.Linear(4, 3, bias=False)
    model, _ = fabric.setup(network, torch.optim.SGD(network.parameters(), 0.1))
    with torch.no_grad():
        network.weight.copy_(torch.arange(12.0).cos().reshape(3, 4))
    # Of five samples, the first of two ranks has three.
    inputs, labels = torch.arange(20.0).sin().reshape(5, 4)[rank::n_ranks], torch.tensor([0, 1, 2, 2, 1])[rank::n_ranks]
    weights = torch.tensor([0.1, 1.0, 5.0])
    loss = weighted_cross_entropy(model(inputs), labels, weights)
    fabric.backward(loss * (len(labels) * n_ranks / 5))  # as the training loop does it
    save_file({"gradient": network.weight.grad}, folder / f"gradient{rank}.safetensors")
"""


def test_a_weighted_mean_is_that_of_the_whole_batch(tmp_path: Path) -> None:
    in_processes(WEIGHTED, tmp_path)
    weight = torch.arange(12.0).cos().reshape(3, 4).requires_grad_()
    logits = torch.arange(20.0).sin().reshape(5, 4) @ weight.T
    loss = F.cross_entropy(logits, torch.tensor([0, 1, 2, 2, 1]), weight=torch.tensor([0.1, 1.0, 5.0]))
    (alone,) = torch.autograd.grad(loss, weight)
    for rank in range(2):
        shared = load_file(tmp_path / f"gradient{rank}.safetensors")["gradient"]
        torch.testing.assert_close(shared, alone, rtol=0, atol=1e-6)


PARTS = """
from safetensors.torch import save_file
from torch.nn import functional as F
from toy_training import ToyBatches
from energyalign.experiments.nets.network import Network
from energyalign.experiments.train.loop import TrainingLoop
from energyalign.experiments.train.recipe import SGD, Constant, Recipe
from energyalign.experiments.train.reporter import Reporter
from energyalign.experiments.train.run_directory import open_run

def by_forward(model, batch, epoch):
    return F.cross_entropy(model(batch[0]), batch[1]) + model.features(batch[0]).square().mean()

def by_parts(model, batch, epoch):
    features = model.backbone(batch[0])
    return F.cross_entropy(model.head(features), batch[1]) + features.square().mean()

def work(fabric, folder):
    for name, loss in {"forward": by_forward, "parts": by_parts}.items():
        torch.manual_seed(0)
        network = Network(torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU()), torch.nn.Linear(8, 3))
        with open_run(folder / name, {"what": name}, fabric) as run:
            TrainingLoop(
                fabric, network, batches=ToyBatches(), loss=loss, recipe=Recipe(2, 10, SGD(0.1), Constant()), run=run,
                seed=3, reporter=Reporter(),
            ).finish()
        save_file(network.state_dict(), folder / f"{name}{fabric.global_rank}.safetensors")
"""


def test_a_loss_may_call_any_part_of_the_network(tmp_path: Path) -> None:
    """Two processes get the result of one: gradients are averaged, whichever parts the loss calls."""
    in_processes(PARTS, tmp_path / "one", 1)
    in_processes(PARTS, tmp_path / "two", 2)
    alone = load_file(tmp_path / "one" / "forward0.safetensors")
    for name in ("forward0", "forward1", "parts0", "parts1"):
        shared = load_file(tmp_path / "two" / f"{name}.safetensors")
        for key, value in alone.items():
            torch.testing.assert_close(shared[key], value, rtol=0, atol=1e-5)
