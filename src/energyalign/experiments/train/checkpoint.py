"""Checkpoints: one safetensors file each, written atomically, with a checksum, never a pickle."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from energyalign.core._io.atomic import atomic_write
from energyalign.core._io.regular import open_regular
from energyalign.core._io.strict_json import parse_json
from energyalign.core._io.tensors import read_tensors
from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.train.tensor_file import digest

FORMAT = 2
KEPT = 2  # the newest, and the one before it as a fallback
_NAME = re.compile(r"epoch-(\d+)-batch-(\d+)\.safetensors")

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Position:
    """The next batch (from 0) and its epoch (from 1), with the sums over this epoch so far."""

    epoch: int = 1
    batch: int = 0
    loss_sum: float = 0.0
    n_samples: int = 0

    def after_batch(self, loss: float, n_samples: int) -> Position:
        """Return the position after one more batch."""
        return Position(self.epoch, self.batch + 1, self.loss_sum + loss * n_samples, self.n_samples + n_samples)

    def next_epoch(self) -> Position:
        """Return the start of the next epoch."""
        return Position(self.epoch + 1)

    @property
    def mean_loss(self) -> float:
        """Mean loss over the samples of this epoch so far; NaN before the first."""
        return self.loss_sum / self.n_samples if self.n_samples else float("nan")

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """Make a position from the output of `asdict`; floats survive JSON exactly."""
        integers = {name: values[name] for name in ("epoch", "batch", "n_samples")}
        if not all(type(number) is int for number in integers.values()):
            raise TypeError(f"a position must have integers, got {integers}")
        return cls(**integers, loss_sum=float(values["loss_sum"]))


def save_checkpoint(
    folder: Path, position: Position, model: torch.nn.Module, optimizer: torch.optim.Optimizer, *, config: str,
    processes: int = 1,
) -> Path:  # fmt: skip
    """Write a checkpoint, and remove all but this and the previous one.

    `config` is the hash of the settings of the run, so that no other run loads the checkpoint; `processes` is the
    number of processes that share the training.
    """
    try:
        folder.mkdir(exist_ok=True)  # the run directory exists, unless it was moved
    except OSError as error:
        raise EnergyAlignError(
            f"cannot create the folder {folder}: {error.strerror or error}. Choose another --out."
        ) from error
    tensors = {f"model/{name}": value for name, value in model.state_dict().items()}
    tensors |= {f"optimizer/{name}": value for name, value in _optimizer_tensors(optimizer)}
    contiguous = _on_cpu(tensors)
    about: dict[str, Any] = {
        "format": FORMAT, "config": config, "position": asdict(position), "processes": processes
    }  # fmt: skip
    about["sha256"] = _digest(json.dumps(about, sort_keys=True), contiguous)
    path = folder / f"epoch-{position.epoch:05d}-batch-{position.batch:06d}.safetensors"
    with atomic_write(path, "wb") as stream:
        stream.write(save(contiguous, {"energyalign": json.dumps(about, sort_keys=True)}))
    drop_older(path)
    return path


def drop_older(path: Path) -> None:
    """Remove all checkpoints older than the previous one.

    Newer checkpoints must be unusable; they are kept for inspection.
    """
    paths = _newest_first(path.parent)
    for old in paths[paths.index(path) + KEPT :]:
        old.unlink(missing_ok=True)


class Checkpoint:
    """A checkpoint that was read and verified; its run must have settings with the hash `config`."""

    def __init__(self, path: Path, config: str) -> None:
        self.path = path
        try:
            with open_regular(path) as stream:
                tensors, metadata = read_tensors(stream, load)
            about = parse_json(metadata.get("energyalign", "null"))
        except (SafetensorError, OSError, ValueError) as error:
            raise EnergyAlignError(f"checkpoint {path} cannot be read: {error}.") from error
        if not isinstance(about, dict) or "format" not in about:
            raise EnergyAlignError(f"{path} is not a checkpoint of energyalign.")
        if about["format"] != FORMAT:
            raise EnergyAlignError(
                f"checkpoint {path} has format {about['format']}, this version reads {FORMAT}: use the version of "
                "energyalign that wrote it."
            )
        if about.pop("sha256", None) != _digest(json.dumps(about, sort_keys=True), tensors):
            raise EnergyAlignError(f"checkpoint {path} is damaged: its contents do not match their checksum.")
        if about.get("config") != config:
            raise EnergyAlignError(f"checkpoint {path} belongs to a run with other settings.")
        try:
            self.position = Position.from_json(about["position"])
            self.processes = int(about["processes"])
        except (KeyError, TypeError, ValueError) as error:
            raise EnergyAlignError(f"checkpoint {path} has no valid position: {error}.") from error
        self._tensors = tensors

    def restore(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer | None = None) -> None:
        """Load the saved values into the model, and into the optimiser if one is given."""
        try:
            model.load_state_dict(self._part("model/"))
            if optimizer is not None:
                _restore_optimizer(optimizer, self._part("optimizer/"))
        except (RuntimeError, ValueError, KeyError) as error:
            raise EnergyAlignError(f"checkpoint {self.path} belongs to another network: {error}") from error

    def _part(self, prefix: str) -> Tensors:
        return {name.removeprefix(prefix): value for name, value in self._tensors.items() if name.startswith(prefix)}


def newest_checkpoint(folder: Path, config: str) -> tuple[Checkpoint | None, list[str]]:
    """Return the newest usable checkpoint with these settings, and why newer ones are unusable.

    Raises
    ------
    EnergyAlignError
        If there are checkpoints but none is usable: starting again silently would hide the loss.
    """
    problems: list[str] = []
    for path in _newest_first(folder):
        try:
            return Checkpoint(path, config), problems
        except EnergyAlignError as error:
            problems.append(str(error))
    if problems:
        raise EnergyAlignError(
            f"no checkpoint in {folder} can be used. {' '.join(problems)} Remove the folder to start again."
        )
    return None, []


def _newest_first(folder: Path) -> list[Path]:
    found = [(match, path) for path in folder.glob("*.safetensors") if (match := _NAME.fullmatch(path.name))]
    return [path for _, path in sorted(found, key=lambda pair: tuple(map(int, pair[0].groups())), reverse=True)]


def _optimizer_tensors(optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the state of each parameter, by its number; learning rates and similar settings come from the recipe."""
    for index, state in optimizer.state_dict()["state"].items():
        for name, value in state.items():
            if value is not None:
                yield f"{index}/{name}", torch.as_tensor(value)


def _restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Tensors) -> None:
    state: dict[int, dict[str, Any]] = {}
    for name, value in tensors.items():
        index, key = name.split("/", 1)
        state.setdefault(int(index), {})[key] = value
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
    for parameter, restored in optimizer.state.items():
        for key, value in restored.items():
            if value.shape == parameter.shape:  # restore the memory layout too: sums in another order round differently
                restored[key] = torch.empty_like(parameter).copy_(value)


def weights_sha256(network: torch.nn.Module) -> str:
    """Return the hash of all parameters and buffers of a network."""
    return _digest("", _on_cpu(network.state_dict()))


def _on_cpu(tensors: Mapping[str, torch.Tensor]) -> Tensors:
    return {name: value.detach().to("cpu").contiguous() for name, value in tensors.items()}


def _digest(about: str, tensors: Tensors) -> str:
    """Hash the tensors and their description."""
    return digest(about, ((name, str(x.dtype), tuple(x.shape), _bytes(x)) for name, x in tensors.items()))


def _bytes(tensor: torch.Tensor) -> bytes | memoryview:
    data: memoryview = tensor.reshape(-1).view(torch.uint8).numpy().data
    return data if tensor.numel() else b""
