"""The number of processes of a command comes from its options or from its launcher, never from both."""

from __future__ import annotations

import re

import pytest

from energyalign import EnergyAlignError
from energyalign.cli.distributed import ProcessCounts, make_fabric, process_counts
from energyalign.cli.main import main

TORCHRUN = {"TORCHELASTIC_RUN_ID": "none", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}
SRUN = {"SLURM_STEP_NUM_TASKS": "6", "SLURM_STEP_NUM_NODES": "2", "SLURM_NTASKS": "6"}


@pytest.mark.parametrize(
    ("devices", "nodes", "environment", "found"),
    [
        (None, None, {}, ProcessCounts(1, 1)),
        (2, None, {}, ProcessCounts(2, 1)),
        (2, 3, {"MASTER_ADDR": "a", "MASTER_PORT": "1", "NODE_RANK": "0"}, ProcessCounts(2, 3)),
        (None, None, TORCHRUN, ProcessCounts(4, 2, "torchrun")),
        (4, None, TORCHRUN, ProcessCounts(4, 2, "torchrun")),
        (None, None, SRUN, ProcessCounts(3, 2, "srun")),
        # A job script with several tasks, and a job with one task: no process has been started yet.
        (None, None, {"SLURM_NTASKS": "4"}, ProcessCounts(1, 1)),
        # Processes started by this command, by Lightning on one of several nodes, and by others for one device.
        (2, None, {"LOCAL_RANK": "1", "TORCHELASTIC_USE_AGENT_STORE": "True"}, ProcessCounts(2, 1)),
        (2, 2, {"LOCAL_RANK": "1", "MASTER_ADDR": "a", "MASTER_PORT": "1", "NODE_RANK": "0"}, ProcessCounts(2, 2)),
        (None, None, {"LOCAL_RANK": "0"}, ProcessCounts(1, 1)),
        (8, None, {"SLURM_STEP_NUM_TASKS": "1", "SLURM_STEP_NUM_NODES": "1"}, ProcessCounts(8, 1)),
    ],
)
def test_found(devices: int | None, nodes: int | None, environment: dict[str, str], found: ProcessCounts) -> None:
    assert process_counts(devices, nodes, environment) == found


@pytest.mark.parametrize(
    ("devices", "nodes", "environment", "message"),
    [
        (0, None, {}, "--devices must be >= 1, got 0."),
        (None, -1, {}, "--nodes must be >= 1, got -1."),
        (2, 2, {"NODE_RANK": "1"}, "--nodes 2 needs MASTER_ADDR, MASTER_PORT in the environment"),
        (2, None, TORCHRUN, "torchrun has started 4 processes on each of 2 nodes. Leave --devices and --nodes out."),
        # Lightning would wait for other processes, on a port that is open to other machines.
        (2, None, {"LOCAL_RANK": "0"}, "LOCAL_RANK is set, as by a launcher other than torchrun and srun: unset it"),
        (None, 1, SRUN, "srun has started 3 processes on each of 2 nodes."),
        (None, None, SRUN | {"SLURM_STEP_NUM_TASKS": "7"}, "give it --ntasks-per-node."),
    ],
)
def test_refused(devices: int | None, nodes: int | None, environment: dict[str, str], message: str) -> None:
    with pytest.raises(EnergyAlignError, match=re.escape(message)):
        process_counts(devices, nodes, environment)


@pytest.mark.parametrize("command", ["longtail", "incremental"])
def test_a_program_that_calls_the_command_is_not_run_again(
    command: str, capsys: pytest.CaptureFixture[str], tmp_path: object
) -> None:
    assert main([command, "digits", "--devices", "2", "--accelerator", "cpu", "--out", str(tmp_path)]) == 2
    assert "run `energyalign` itself." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value", "ours"),
    [
        ("PRECISION", "bf16-mixed", "32-true"), ("DEVICES", "2", "1"), ("NUM_NODES", "2", "1"),
        ("STRATEGY", "ddp", "auto"), ("ACCELERATOR", "cuda", "cpu"),
    ],
)  # fmt: skip
def test_lightning_follows_no_other_settings(name: str, value: str, ours: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows would say that they were trained in another precision."""
    monkeypatch.setenv(f"LT_{name}", value)
    with pytest.raises(EnergyAlignError, match=f"LT_{name} is {value} in the environment, but this run has {ours}: "):
        make_fabric("cpu", "32-true", ProcessCounts())
    monkeypatch.setenv(f"LT_{name}", ours)
    make_fabric("cpu", "32-true", ProcessCounts())
