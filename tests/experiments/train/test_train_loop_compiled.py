"""Compiled trainings: the same bytes after interruptions, a plain network at the end, an error without a compiler."""

from __future__ import annotations

import copy
import functools
import json
import os
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning_fabric import Fabric
from toy_training import RECIPE, ToyBatches, bytes_of, toy_loss, toy_network

from energyalign import EnergyAlignError
from energyalign.cli.main import main
from energyalign.core._io.signals import Interrupted
from energyalign.experiments.nets.network import make_network
from energyalign.experiments.train.checkpoint import Position
from energyalign.experiments.train.loop import TrainingLoop, compiled
from energyalign.experiments.train.reporter import Reporter
from energyalign.experiments.train.run_directory import open_run

from torch._inductor import config as inductor  # isort: skip


class Uneven(ToyBatches):
    """Batches whose last one is smaller, as in most epochs."""

    def epoch(self, number: int, **where: Any) -> Iterator[Any]:
        for place, (inputs, labels) in enumerate(super().epoch(number, **where), where.get("start", 0)):
            keep = 6 if place == self.n_batches - 1 else len(labels)
            yield inputs[:keep], labels[:keep]


class StopInEpoch2(Reporter):
    """Reporter that stops before the last batch, so that the resumed process starts with the smaller size."""

    def batch_done(self, position: Position, lr: float) -> None:  # noqa: ARG002
        if (position.epoch, position.batch) == (2, 3):
            os.kill(os.getpid(), signal.SIGINT)


def train(folder: Path, reporter: Reporter | None = None) -> None:
    torch.compiler.reset()  # as in a new process
    with open_run(folder, {"what": "toy"}) as run:
        TrainingLoop(
            Fabric(accelerator="cpu", devices=1), toy_network(), batches=Uneven(), loss=toy_loss, recipe=RECIPE,
            run=run, seed=3, reporter=reporter or Reporter(), compile=True,
        ).finish()  # fmt: skip


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no compiler")
def test_interrupted_and_resumed_it_ends_with_the_bytes_of_a_whole_training(tmp_path: Path) -> None:
    train(tmp_path / "whole")
    with pytest.raises(Interrupted):
        train(tmp_path / "cut", StopInEpoch2())
    train(tmp_path / "cut")
    assert bytes_of(tmp_path / "cut") == bytes_of(tmp_path / "whole")


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the operations of each compiled graph, with a stand-in for the compiler."""
    graphs: list[int] = []

    def count(graph: torch.fx.GraphModule, _inputs: Any) -> Any:
        graphs.append(sum(node.op.startswith("call") for node in graph.graph.nodes))
        return graph.forward

    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend=count))
    return graphs


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # which torch hides otherwise
@pytest.mark.parametrize(("backbone", "n_graphs"), [("resnet8", 1), ("resnet8-bbn", 2)])
def test_the_backbone_is_compiled_as_a_whole_and_no_longer_than_wanted(
    backbone: str, n_graphs: int, counted: list[int]
) -> None:
    network, images = make_network(backbone, 4), torch.randn(2, 3, 8, 8)
    same = copy.deepcopy(network)
    for _ in range(5):  # reset: earlier trainings must have no influence
        with compiled(network):
            assert torch.equal(network(images), same(images))
    assert len(counted) == 5 * n_graphs
    assert torch.equal(network(images), same(images))
    assert len(counted) == 5 * n_graphs


def test_paths_are_refused() -> None:
    with (
        pytest.raises(EnergyAlignError, match=r"random paths.*leave out --compile"),
        compiled(make_network("rps-small", 4)),
    ):
        pass


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ("incremental digits --method rps", r"random paths.*leave out --compile"),
        ("incremental digits --method rps ea", r"random paths.*leave out --compile"),
        ("longtail digits --backbone rps-small", r"random paths.*leave out --compile"),
        ("longtail digits --backbone resnet999", "unknown backbone 'resnet999'"),
        ("incremental digits --backbone resnet999", "unknown backbone 'resnet999'"),
    ],
)
def test_what_cannot_be_compiled_is_refused_before_anything_is_trained(
    command: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main([*command.split(), "--compile", "--out", str(tmp_path / "out")])
    assert code == 2
    assert re.search(complaint, capsys.readouterr().err, re.DOTALL)
    assert not list(tmp_path.glob("out/*"))


@pytest.mark.parametrize("command", ["longtail", "incremental"])
def test_without_a_compiler_nothing_is_trained(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with inductor.patch({"cpp.cxx": (None, str(tmp_path / "no-compiler"))}):
        code = main([command, "digits", "--compile", "--out", str(tmp_path / "out")])
    assert code == 2
    told = capsys.readouterr().err
    assert "no-compiler" in told
    assert "install a C++ compiler" in told
    assert not list(tmp_path.rglob("*.safetensors"))
    assert all(json.loads(path.read_text())["compile"] is True for path in (tmp_path / "out").rglob("config.json"))
