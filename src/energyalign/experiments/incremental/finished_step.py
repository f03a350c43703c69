"""The files of a step that is done: network, memory, record. With them the next step can begin in another process."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save

from energyalign.core._io.atomic import atomic_write, remove_folder
from energyalign.core.errors import EnergyAlignError, reason_of
from energyalign.experiments.incremental.memory import Memory
from energyalign.experiments.incremental.record import StepRecord
from energyalign.experiments.incremental.step import step_folder
from energyalign.experiments.nets.network import Network
from energyalign.experiments.train.run_directory import RunDirectory
from energyalign.experiments.train.tensor_file import load_arrays, refuse_long_header, save_arrays

NETWORK, RECORD, STATE = "network.safetensors", "record.safetensors", "state.json"


@dataclass(frozen=True, eq=False)
class FinishedStep:
    """What a later step needs to know of it, beside the network."""

    memory: Memory
    record: StepRecord
    network_sha256: str
    processes: int


def is_finished(run: RunDirectory, number: int) -> bool:
    """Whether the step has been trained to its end. The state is written last."""
    return (step_folder(run, number) / STATE).exists()


def refuse_gap(run: RunDirectory, number: int, n_steps: int) -> None:
    """An error if a later step is finished and this one is not: to train it again silently would hide the loss."""
    later = [other for other in range(number + 1, n_steps + 1) if is_finished(run, other)]
    if later and not is_finished(run, number):
        folder = step_folder(run, number)
        raise EnergyAlignError(
            f"{folder / STATE} is gone, though step {later[0]} was trained after it: put it back, or {_remedy(folder)}"
        )


def save_step(
    run: RunDirectory, number: int, network: Network, memory: Memory, record: StepRecord, *, processes: int = 1
) -> FinishedStep:
    """Write the files and drop the trainings that led there; `processes` is how many shared them."""
    weights = {name: value.detach().cpu().contiguous() for name, value in network.state_dict().items()}
    content = save(weights)
    finished = FinishedStep(memory, record, hashlib.sha256(content).hexdigest(), processes)
    if run.writes:
        folder = step_folder(run, number)
        with atomic_write(folder / NETWORK, "wb") as stream:
            stream.write(content)
        save_arrays(folder / RECORD, record.arrays())
        hashes = {NETWORK: finished.network_sha256, RECORD: _sha256(folder / RECORD)}
        state = {"memory": memory.to_json(), "sha256": hashes, "processes": processes}
        RunDirectory(folder).write_json(STATE, state | {"checksum": _checksum(state, run)})
        _drop_stages(folder)
    return finished


def load_step(run: RunDirectory, number: int, network: Network) -> FinishedStep:
    """Read what `save_step` wrote; the weights go into the network."""
    folder = step_folder(run, number)
    state = RunDirectory(folder).read_json(STATE) or {}
    if state.pop("checksum", None) != _checksum(state, run):
        raise EnergyAlignError(f"{folder / STATE} is damaged, or of a run with other settings: {_remedy(folder)}")
    try:
        damaged = [name for name in (NETWORK, RECORD) if _sha256(folder / name) != state["sha256"][name]]
        if damaged:
            raise EnergyAlignError(f"{folder / damaged[0]} is damaged")
        refuse_long_header(folder / NETWORK)
        network.load_state_dict(load((folder / NETWORK).read_bytes()))
        memory = Memory.from_json(state["memory"])
        record = StepRecord.from_arrays(load_arrays(folder / RECORD))
        processes = int(state["processes"])
    except (OSError, SafetensorError, RuntimeError, LookupError, TypeError, ValueError, ArithmeticError) as error:
        raise EnergyAlignError(
            f"the step in {folder} cannot be read ({reason_of(error)}): {_remedy(folder)}"
        ) from error
    network.eval()
    if run.writes:
        _drop_stages(folder)  # a process may have been killed right before it did
    return FinishedStep(memory, record, state["sha256"][NETWORK], processes)


def _drop_stages(folder: Path) -> None:
    """The run directories of the trainings of a finished step, with their checkpoints: nobody will need them."""
    for config in folder.glob("*/config.json"):
        remove_folder(config.parent)


def _checksum(state: dict[str, Any], run: RunDirectory) -> str:
    """Of which exemplars there are and which files, and of the settings of the run."""
    return hashlib.sha256((json.dumps(state, sort_keys=True) + run.config_sha256).encode()).hexdigest()


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _remedy(folder: Path) -> str:
    return f"remove {folder} and all later steps beside it, and the run will train them again."
