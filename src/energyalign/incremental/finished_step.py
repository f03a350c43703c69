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
    network_sha256: str


def is_finished(run: RunDirectory, number: int) -> bool:
    """Whether the step has been trained to its end. The state is written last."""
    return (step_folder(run, number) / STATE).exists()


def save_step(run: RunDirectory, number: int, network: Network, memory: Memory, record: StepRecord) -> FinishedStep:
    """Write the files and drop the trainings that led there."""
    weights = {name: value.detach().cpu().contiguous() for name, value in network.state_dict().items()}
    content = save(weights)
    finished = FinishedStep(memory, record, hashlib.sha256(content).hexdigest())
    if run.writes:
        folder = step_folder(run, number)
        with atomic_write(folder / NETWORK, "wb") as stream:
            stream.write(content)
        save_arrays(folder / RECORD, record.arrays())
        hashes = {NETWORK: finished.network_sha256, RECORD: _sha256(folder / RECORD)}
        RunDirectory(folder).write_json(STATE, {"memory": memory.to_json(), "sha256": hashes})
        _drop_stages(folder)
    return finished


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
    if run.writes:
        _drop_stages(folder)  # a process may have been killed right before it did
    return FinishedStep(memory, StepRecord.from_arrays(load_arrays(folder / RECORD)), state["sha256"][NETWORK])


def _drop_stages(folder: Path) -> None:
    """The run directories of the trainings of a finished step, with their checkpoints: nobody will need them."""
    for config in folder.glob("*/config.json"):
        shutil.rmtree(config.parent)


def frozen(network: torch.nn.Module) -> torch.nn.Module:
    """In evaluation mode and without gradients: a teacher."""
    return network.eval().requires_grad_(False)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _remedy(folder: Path) -> str:
    return f"remove {folder} and all later steps beside it, and the run will train them again."
