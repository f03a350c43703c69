"""Two real processes with a shard each compute the shifts of one process with all data."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn
from warm_process import WarmProcess

from energyalign.pytorch import align

_START = """
import atexit, json, sys
import torch, torch.distributed as dist
from safetensors.torch import load_file
from torch import nn
from energyalign.pytorch import align
rank, folder = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
atexit.register(dist.destroy_process_group)  # left to the interpreter, gloo's threads now and then abort the process
torch.manual_seed(0)
model = nn.Linear(6, 4)
data = load_file(f"{folder}/data.safetensors")
x, y = (data[name][:70] if rank == 0 else data[name][70:] for name in "xy")  # of unequal length

def tell(name, value):
    with open(f"{folder}/{name}{rank}.json", "w") as stream:
        json.dump(value, stream)
"""


def run_two_ranks(folder: Path, script: str) -> list[tuple[int, str]]:
    """Return exit code and error output of each process."""
    generator = torch.Generator().manual_seed(1)
    data = {"x": 2 * torch.randn(200, 6, generator=generator), "y": torch.arange(200) % 4}
    save_file(data, folder / "data.safetensors")
    (folder / "script.py").write_text(_START + script)
    ranks = [WarmProcess([folder / "script.py", rank, folder], folder, folder / f"logs{rank}") for rank in range(2)]
    return [(process.wait(), process.stderr) for process in ranks]


def told(folder: Path, name: str) -> list[object]:
    return [json.loads((folder / f"{name}{rank}.json").read_text()) for rank in range(2)]


def test_two_processes_equal_one(tmp_path: Path) -> None:
    script = """
from torch.nn.parallel import DistributedDataParallel
for estimator in ("lse", "marginal"):
    batches = [(x[i : i + 40], y[i : i + 40]) for i in range(0, len(x), 40)]
    aligned = align(DistributedDataParallel(model), batches, estimator=estimator, clusters="per-class")
    assert type(aligned) is nn.Linear
    tell(estimator, aligned.shifts_.values.tolist())
unlabelled = align(model, [x], estimator="lse", clusters="per-class")
tell("unlabelled", unlabelled.shifts_.values.tolist())
"""
    assert [code for code, _ in run_two_ranks(tmp_path, script)] == [0, 0]
    torch.manual_seed(0)
    model = nn.Linear(6, 4)
    generator = torch.Generator().manual_seed(1)
    x, y = 2 * torch.randn(200, 6, generator=generator), torch.arange(200) % 4
    for estimator in ("lse", "marginal"):
        alone = align(model, [(x, y)], estimator=estimator, clusters="per-class").shifts_.values
        for found in told(tmp_path, estimator):
            np.testing.assert_allclose(found, alone, atol=1e-6)
    alone = align(model, [x], estimator="lse", clusters="per-class").shifts_.values
    for found in told(tmp_path, "unlabelled"):
        np.testing.assert_allclose(found, alone, atol=1e-6)


def test_a_problem_on_one_rank_stops_both(tmp_path: Path) -> None:
    """Otherwise the other one would wait for its logits forever."""
    script = """
if rank == 1:
    x[5] = torch.nan
align(model, [(x, y)])
"""
    (first, first_error), (second, second_error) = run_two_ranks(tmp_path, script)
    assert (first, second) == (1, 1)
    assert "rank 1 failed: see its own message." in first_error
    assert "NaN logits for batch 0" in second_error


def test_labels_counted_by_each_rank_add_up(tmp_path: Path) -> None:
    script = """
from energyalign.pytorch.label_counts import LabelCounter
known, unknown = LabelCounter(), LabelCounter()
known.add(y)
unknown.add(y if rank == 0 else None)
tell("known", known.counts(4).tolist())
tell("unknown", unknown.counts(4))
"""
    assert [code for code, _ in run_two_ranks(tmp_path, script)] == [0, 0]
    assert told(tmp_path, "known") == [[50, 50, 50, 50]] * 2
    assert told(tmp_path, "unknown") == [None, None]
