"""Checkpoints: one safetensors file each, written atomically, checked when read, never a pickle."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from energyalign.core.atomic import atomic_write
from energyalign.core.errors import EnergyAlignError
from energyalign.core.strict_json import parse_json
from energyalign.train.position import Position

FORMAT = 1
KEPT = 2  # the newest and the one before it, in case the newest is damaged
_NAME = re.compile(r"epoch-(\d+)-batch-(\d+)\.safetensors")

Tensors = dict[str, torch.Tensor]


def save_checkpoint(folder: Path, position: Position, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> Path:
    """Write a checkpoint and drop all but the newest `KEPT`."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {f"model/{name}": value for name, value in model.state_dict().items()}
    tensors |= {f"optimizer/{name}": value for name, value in _optimizer_tensors(optimizer)}
    contiguous = {name: value.detach().to("cpu").contiguous() for name, value in tensors.items()}
    about = {"format": FORMAT, "position": position.to_json(), "sha256": _digest(contiguous)}
    path = folder / f"epoch-{position.epoch:05d}-batch-{position.batch:06d}.safetensors"
    with atomic_write(path, "wb") as stream:
        stream.write(save(contiguous, {"energyalign": json.dumps(about, sort_keys=True)}))
    for old in _newest_first(folder)[KEPT:]:
        old.unlink(missing_ok=True)
    return path


class Checkpoint:
    """A checkpoint that was read whole and found undamaged."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with safe_open(path, "pt") as stream:
                about = parse_json((stream.metadata() or {}).get("energyalign", "null"))
                tensors: Tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118 - no mapping
        except (SafetensorError, OSError, ValueError) as error:
            raise EnergyAlignError(f"checkpoint {path} cannot be read: {error}.") from error
        if not isinstance(about, dict) or "format" not in about:
            raise EnergyAlignError(f"{path} is not a checkpoint of energyalign.")
        if about["format"] != FORMAT:
            raise EnergyAlignError(
                f"checkpoint {path} has format {about['format']}, this version reads {FORMAT}: use the version of "
                "energyalign that wrote it."
            )
        if about["sha256"] != _digest(tensors):
            raise EnergyAlignError(f"checkpoint {path} is damaged: its contents do not match their checksum.")
        self.position = Position.from_json(about["position"])
        self._tensors = tensors

    def restore(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer | None = None) -> None:
        """Put the saved values into the model, and into the optimiser if there is one."""
        try:
            model.load_state_dict(self._part("model/"))
        except RuntimeError as error:
            raise EnergyAlignError(f"checkpoint {self.path} is of another network: {error}") from error
        if optimizer is not None:
            _restore_optimizer(optimizer, self._part("optimizer/"))

    def _part(self, prefix: str) -> Tensors:
        return {name.removeprefix(prefix): value for name, value in self._tensors.items() if name.startswith(prefix)}


def newest_checkpoint(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest undamaged checkpoint, and what is wrong with newer ones.

    Raises
    ------
    EnergyAlignError
        If there are checkpoints and none can be used: to start again silently would hide the loss.
    """
    problems: list[str] = []
    for path in _newest_first(folder):
        try:
            return Checkpoint(path), problems
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
    """The state of each parameter by its number; learning rates and the like come from the recipe."""
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


def _digest(tensors: Tensors) -> str:
    """Of names, types, shapes and bytes, so that no change goes unseen."""
    total = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name]
        total.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        total.update(value.reshape(-1).view(torch.uint8).numpy().data if value.numel() else b"")
    return total.hexdigest()
