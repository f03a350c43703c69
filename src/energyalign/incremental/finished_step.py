"""The files of a step that is done: network, memory, record. With them the next step can begin in another process."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from energyalign.core.atomic import atomic_write
from energyalign.core.errors import EnergyAlignError
from energyalign.incremental.memory import Memory
from energyalign.incremental.record import StepRecord
from energyalign.incremental.step import step_folder
from energyalign.nets.network import Network
from energyalign.train.run_directory import RunDirectory
from energyalign.train.tensor_file import load_arrays, save_arrays

NETWORK, RECORD, STATE = "network.safetensors", "record.safetensors", "state.json"


@dataclass(frozen=True, eq=False)
class FinishedStep:
    """What a later step needs to know of it, beside the network."""

    memory: Memory
    record: StepRecord


def is_finished(run: RunDirectory, number: int) -> bool:
    """Whether the step has been trained to its end. The state is written last."""
    return (step_folder(run, number) / STATE).exists()


def save_step(run: RunDirectory, number: int, network: Network, finished: FinishedStep) -> None:
    """Write the files and drop the checkpoints that led there."""
    if not run.writes:
        return
    folder = step_folder(run, number)
    weights = {name: value.detach().cpu().contiguous() for name, value in network.state_dict().items()}
    with atomic_write(folder / NETWORK, "wb") as stream:
        stream.write(save(weights))
    save_arrays(folder / RECORD, finished.record.arrays())
    hashes = {name: _sha256(folder / name) for name in (NETWORK, RECORD)}
    RunDirectory(folder).write_json(STATE, {"memory": finished.memory.to_json(), "sha256": hashes})
    drop_checkpoints(run, number)


def load_step(run: RunDirectory, number: int, network: Network) -> FinishedStep:
    """Read what `save_step` wrote; the weights go into the network."""
    folder = step_folder(run, number)
    state = RunDirectory(folder).read_json(STATE) or {}
    try:
        for name, expected in state["sha256"].items():
            if _sha256(folder / name) != expected:
                raise EnergyAlignError(f"{folder / name} is damaged: {_remedy(folder)}")
        network.load_state_dict(load((folder / NETWORK).read_bytes()))
        memory = Memory.from_json(state["memory"])
    except (OSError, SafetensorError, RuntimeError, KeyError, TypeError, ValueError) as error:
        raise EnergyAlignError(f"the step in {folder} cannot be read ({error}): {_remedy(folder)}") from error
    network.eval()
    return FinishedStep(memory, StepRecord.from_arrays(load_arrays(folder / RECORD)))


def drop_checkpoints(run: RunDirectory, number: int) -> None:
    """Those of a finished step, which nobody will need; also those that a process left that was killed right here."""
    for folder in step_folder(run, number).glob("*/checkpoints"):
        shutil.rmtree(folder)


def frozen(network: torch.nn.Module) -> torch.nn.Module:
    """In evaluation mode and without gradients: a teacher."""
    return network.eval().requires_grad_(False)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _remedy(folder: Path) -> str:
    return f"remove {folder} and all later steps beside it, and the run will train them again."
