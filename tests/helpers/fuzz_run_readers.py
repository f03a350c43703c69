"""Readers of the files of a run directory for fuzzing."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import torch
from fuzz_reader import Files, Reader
from made_up_run import made_up_run
from torch import nn

from energyalign.experiments.data.cut import given_counts
from energyalign.experiments.data.manifest import Manifest
from energyalign.experiments.engine.stored import find_runs, measured_runs
from energyalign.experiments.incremental.config import IncrementalConfig, config_of
from energyalign.experiments.incremental.memory import Memory
from energyalign.experiments.incremental.methods import find_method
from energyalign.experiments.incremental.presets import PRESETS as INCREMENTAL
from energyalign.experiments.incremental.step import StepRecord, _checksum, load_step, save_step
from energyalign.experiments.longtail.config import LongTailConfig, _read_profile
from energyalign.experiments.longtail.presets import PRESETS
from energyalign.experiments.nets.network import Network
from energyalign.experiments.train.checkpoint import Position, newest_checkpoint, save_checkpoint
from energyalign.experiments.train.run_directory import RunDirectory, _sha256
from energyalign.experiments.train.tensor_file import load_arrays, save_arrays
from energyalign.report.tables import find_table

_NAMES = ("cat", "dog", "eel", "fox")


def _written(write: Callable[[Path], object], wanted: Iterable[str] | None = None) -> Files:
    """Return all or some of the files that a function writes into a folder."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        paths = sorted(path for path in Path(folder).rglob("*") if path.is_file())
        files = {str(path.relative_to(folder)): path.read_bytes() for path in paths}
    return files if wanted is None else {name: files[name] for name in wanted}


def _made_up(*names: str) -> Files:
    return {Path(name).name: content for name, content in _written(lambda folder: made_up_run(folder / "run", _NAMES),
            [f"run/{name}" for name in names]).items()}  # fmt: skip


def _config() -> Reader:
    settings = [
        LongTailConfig.from_preset(PRESETS["digits-lt-50"], seed=0),
        config_of(find_method("ea"), INCREMENTAL["digits-il-5"], seed=0),
    ]

    def read(folder: Path) -> None:
        find_runs([folder])
        kind = LongTailConfig if folder.name == "0" else IncrementalConfig
        kind.from_json(RunDirectory(folder).read_json("config.json") or {})

    return Reader(read, [{"config.json": json.dumps(one.to_json()).encode()} for one in settings])


def _rows() -> Reader:
    def finish(files: Files) -> dict[str, bytes]:
        """Update the hashes of the rows."""
        kept = []
        for line in files["rows.jsonl"].split(b"\n"):
            try:
                row = json.loads(line)
                row.pop("sha256", None)
                kept.append(json.dumps(row | {"sha256": _sha256(row)}).encode())
            except Exception:  # nothing that could have a hash
                kept.append(line)
        return {"rows.jsonl": b"\n".join(kept)}

    def read(folder: Path) -> None:
        runs = measured_runs([folder])
        find_table("longtail").make([row for run in runs for row in run.rows]).render("markdown")

    return Reader(read, [_made_up("rows.jsonl", "config.json")], fixed=["config.json"], finish=finish)


def _commands() -> Reader:
    lines = b"energyalign longtail digits\nenergyalign longtail digits --method ea\n"
    return Reader(lambda folder: RunDirectory(folder).read_commands(), [{"commands.txt": lines}], named="commands.txt")


def _manifest() -> Reader:
    def finish(files: Files) -> dict[str, bytes]:
        """Update the hash of the content."""
        try:
            content = json.loads(files["manifest.json"])
            content["sha256"] = Manifest._parse("", content).sha256
            return {"manifest.json": json.dumps(content).encode()}
        except Exception:  # there is nothing to take the hash of
            return {}

    return Reader(
        lambda folder: Manifest.load(folder / "manifest.json").sha256, [_made_up("manifest.json")], finish=finish,
        named="manifest.json",
    )  # fmt: skip


def _network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))


def _checkpoint() -> Reader:
    network = _network()
    optimizer = torch.optim.SGD(network.parameters(), 0.1, momentum=0.9)
    network(torch.randn(8, 4)).square().sum().backward()
    optimizer.step()

    def read(folder: Path) -> None:
        checkpoint, _ = newest_checkpoint(folder, "settings")
        assert checkpoint is not None
        checkpoint.restore(network, optimizer)

    position = Position(3, 2, 1.25, 20)
    written = _written(lambda folder: save_checkpoint(folder, position, network, optimizer, config="settings"))
    return Reader(read, [written], named="safetensors")


def _arrays() -> Reader:
    arrays = {"logits": np.ones((5, 3), np.float32), "labels": np.arange(5), "empty": np.ones(0)}
    written = _written(lambda folder: save_arrays(folder / "test_logits.safetensors", arrays))
    return Reader(lambda folder: load_arrays(folder / "test_logits.safetensors"), [written], named="test_logits")


def _stored_logits() -> Reader:
    sample = _made_up("test_logits.safetensors", "config.json", "rows.jsonl", "manifest.json")
    return Reader(
        lambda folder: find_runs([folder])[0].outputs(), [sample], fixed=["config.json", "rows.jsonl", "manifest.json"],
        named="test_logits.safetensors",
    )  # fmt: skip


def _step(changed: str) -> Reader:
    network = Network(nn.Flatten(), nn.Linear(4, 3))
    memory = Memory((np.arange(3), np.arange(3, 6)), (np.arange(1), np.arange(2)))
    record = StepRecord(np.ones((3, 4)), np.ones(3), np.ones(3), np.ones(3), 1.0, 0.5)

    def write(folder: Path) -> None:
        (folder / "step-01").mkdir()
        save_step(RunDirectory(folder), 1, network, memory, record)

    def finish(files: Files) -> dict[str, bytes]:
        """Update the hashes of the files, and the state's own hash."""
        try:
            state = json.loads(files["step-01/state.json"])
            state.pop("checksum", None)
            if changed != "state.json":
                names = state["sha256"]
                state["sha256"] = {name: hashlib.sha256(files[f"step-01/{name}"]).hexdigest() for name in names}
            checksum = _checksum(state, RunDirectory(Path("without settings")))
            return {"step-01/state.json": json.dumps(state | {"checksum": checksum}).encode()}
        except Exception:  # it is no state any more
            return {}

    sample = _written(write)
    fixed = [path for path in sample if path != f"step-01/{changed}"]
    return Reader(
        lambda folder: load_step(RunDirectory(folder), 1, network),
        [sample],
        fixed=fixed,
        finish=finish,
        named="step-01",
    )


def _profiles() -> Reader:
    def read(folder: Path) -> None:
        given_counts(_read_profile(str(folder / "profile.json")), _NAMES)

    counts = dict(zip(_NAMES, (40, 20, 10, 5), strict=True))
    return Reader(read, [{"profile.json": json.dumps(counts).encode()}])


READERS: dict[str, Callable[[], Reader]] = {
    "config.json": _config,
    "rows.jsonl": _rows,
    "commands.txt": _commands,
    "manifest.json": _manifest,
    "checkpoint": _checkpoint,
    "arrays": _arrays,
    "stored logits": _stored_logits,
    "state.json of a step": lambda: _step("state.json"),
    "network of a step": lambda: _step("network.safetensors"),
    "record of a step": lambda: _step("record.safetensors"),
    "profile of a long tail": _profiles,
}
