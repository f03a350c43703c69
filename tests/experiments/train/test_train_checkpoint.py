"""A checkpoint is restored exactly, or refused by name."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from energyalign import EnergyAlignError
from energyalign.experiments.train.checkpoint import Checkpoint, Position, newest_checkpoint, save_checkpoint

OWN = "the hash of the settings"


def trained() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    optimizer = torch.optim.SGD(network.parameters(), 0.1, momentum=0.9)
    for _ in range(3):
        optimizer.zero_grad()
        network(torch.randn(8, 4)).square().sum().backward()
        optimizer.step()
    return network, optimizer


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return save_checkpoint(tmp_path, Position(3, 2, 1.25, 20), *trained(), config=OWN)


def test_everything_comes_back(saved: Path) -> None:
    network, optimizer = trained()
    fresh = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    other = torch.optim.SGD(fresh.parameters(), 0.1, momentum=0.9)
    checkpoint = Checkpoint(saved, OWN)
    checkpoint.restore(fresh, other)
    assert checkpoint.position == Position(3, 2, 1.25, 20)
    assert all(
        torch.equal(a, b) for a, b in zip(network.state_dict().values(), fresh.state_dict().values(), strict=True)
    )
    for a, b in zip(optimizer.state.values(), other.state.values(), strict=True):
        assert torch.equal(a["momentum_buffer"], b["momentum_buffer"])


@pytest.mark.promise("An input that changes while it is read is detected", "changes")
def test_nothing_depends_on_a_file_that_was_read(saved: Path) -> None:
    """Accessing a map of a truncated file would kill the process."""
    checkpoint = Checkpoint(saved, OWN)
    os.truncate(saved, 0)
    network, fresh = trained()[0], nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    checkpoint.restore(fresh)
    assert torch.equal(fresh[0].weight, network[0].weight)


def test_momentum_has_the_layout_of_its_weights_again(tmp_path: Path) -> None:
    """Sums over two memory layouts are rounded differently."""
    network = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(network.parameters(), 0.1, momentum=0.9)
    network(torch.randn(2, 3, 5, 5)).square().sum().backward()
    optimizer.step()
    path = save_checkpoint(tmp_path, Position(), network, optimizer, config=OWN)
    before = optimizer.state[network.weight]["momentum_buffer"]
    Checkpoint(path, OWN).restore(network, optimizer)
    after = optimizer.state[network.weight]["momentum_buffer"]
    assert after is not before
    assert torch.equal(after, before)
    assert after.stride() == before.stride() == network.weight.stride() != torch.empty(4, 3, 3, 3).stride()


def test_the_same_state_gives_the_same_bytes(saved: Path, tmp_path: Path) -> None:
    again = save_checkpoint(tmp_path / "again", Position(3, 2, 1.25, 20), *trained(), config=OWN)
    assert again.read_bytes() == saved.read_bytes()


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.999])
def test_a_truncated_file_is_refused(saved: Path, share: float) -> None:
    content = saved.read_bytes()
    saved.write_bytes(content[: int(share * len(content))])
    with pytest.raises(EnergyAlignError, match="cannot be read"):
        Checkpoint(saved, OWN)


def test_any_flipped_bit_is_seen(saved: Path) -> None:
    """Also in the header, which contains the position of the training."""
    content = saved.read_bytes()
    body = 8 + int.from_bytes(content[:8], "little")
    rng = np.random.default_rng(0)
    for place in [*rng.integers(0, body, 400).tolist(), *rng.integers(body, len(content), 100).tolist()]:
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(8))
        saved.write_bytes(damaged)
        try:
            checkpoint = Checkpoint(saved, OWN)
        except EnergyAlignError:
            continue
        # Only changes without a meaning, such as white space in the header, are accepted.
        network, _ = trained()
        fresh = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
        checkpoint.restore(fresh)
        assert all(
            torch.equal(a, b) for a, b in zip(network.state_dict().values(), fresh.state_dict().values(), strict=True)
        )
        assert checkpoint.position == Position(3, 2, 1.25, 20)


def changed(path: Path, **about: object) -> None:
    """Write the same tensors with other metadata."""
    with safe_open(path, "pt") as stream:
        known = json.loads(stream.metadata()["energyalign"])
    save_file(load_file(path), path, {"energyalign": json.dumps(known | about, sort_keys=True)})


def test_one_that_says_another_position_is_refused(saved: Path) -> None:
    changed(saved, position=asdict(Position(4, 2, 1.25, 20)))
    with pytest.raises(EnergyAlignError, match="is damaged: its contents do not match their checksum"):
        Checkpoint(saved, OWN)


def test_one_of_a_run_with_other_settings_is_refused(saved: Path) -> None:
    with pytest.raises(EnergyAlignError, match="belongs to a run with other settings"):
        Checkpoint(saved, "the hash of others")


def test_what_was_just_saved_stays_though_there_are_newer_ones_that_cannot_be_used(tmp_path: Path) -> None:
    for epoch in (4, 5, 6, 7):
        save_checkpoint(tmp_path, Position(epoch), *trained(), config=OWN)
    assert [path.name[:11] for path in sorted(tmp_path.iterdir())] == ["epoch-00006", "epoch-00007"]
    for path in tmp_path.iterdir():
        path.write_bytes(b"")
    for epoch in (3, 4, 5):
        save_checkpoint(tmp_path, Position(epoch), *trained(), config=OWN)
    found, problems = newest_checkpoint(tmp_path, OWN)
    assert found is not None
    assert found.position == Position(5)
    assert len(problems) == 2
    assert [path.name[:11] for path in sorted(tmp_path.iterdir())] == [f"epoch-0000{n}" for n in (4, 5, 6, 7)]


def test_a_place_without_room_is_named(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("a file")
    with pytest.raises(EnergyAlignError, match=r"cannot create the folder .*checkpoints: File exists"):
        save_checkpoint(tmp_path / "checkpoints", Position(), *trained(), config=OWN)


def test_another_format_says_which_version_to_use(saved: Path) -> None:
    save_file(load_file(saved), saved, {"energyalign": json.dumps({"format": 99})})
    with pytest.raises(EnergyAlignError, match="has format 99, this version reads 2"):
        Checkpoint(saved, OWN)


def test_a_file_of_somebody_else(saved: Path) -> None:
    save_file({"x": torch.zeros(1)}, saved)
    with pytest.raises(EnergyAlignError, match="is not a checkpoint of energyalign"):
        Checkpoint(saved, OWN)


def test_another_network_is_refused(saved: Path) -> None:
    with pytest.raises(EnergyAlignError, match="belongs to another network"):
        Checkpoint(saved, OWN).restore(nn.Linear(4, 3))


def test_if_none_can_be_used_it_is_said(saved: Path) -> None:
    saved.write_bytes(b"")
    with pytest.raises(
        EnergyAlignError, match=r"no checkpoint in .* can be used\. .* Remove the folder to start again"
    ):
        newest_checkpoint(saved.parent, OWN)


def test_without_checkpoints_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not ours")
    assert newest_checkpoint(tmp_path, OWN) == (None, [])
