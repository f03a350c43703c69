"""Two real processes, each with its shard, find the shifts of one process with all of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

from energyalign.pytorch import align

_RANK = """
import json, sys
import torch, torch.distributed as dist
from safetensors.torch import load_file
from torch import nn
from energyalign.pytorch import align
rank, folder = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
torch.manual_seed(0)
model = nn.Linear(6, 4)
data = load_file(f"{folder}/data.safetensors")
part = slice(0, 70) if rank == 0 else slice(70, None)  # of unequal length
for estimator in ("lse", "marginal"):
    aligned = align(model, [(data["x"][part], data["y"][part])], estimator=estimator, clusters="per-class")
    with open(f"{folder}/{estimator}{rank}.json", "w") as stream:
        json.dump(aligned.shifts_.values.tolist(), stream)
dist.destroy_process_group()
"""


def test_two_processes_equal_one(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(1)
    data = {"x": 2 * torch.randn(200, 6, generator=generator), "y": torch.arange(200) % 4}
    save_file(data, tmp_path / "data.safetensors")
    ranks = [
        subprocess.Popen([sys.executable, "-c", _RANK, str(rank), str(tmp_path)], stderr=subprocess.PIPE)
        for rank in range(2)
    ]
    for process in ranks:
        _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err.decode()
    torch.manual_seed(0)
    model = nn.Linear(6, 4)
    for estimator in ("lse", "marginal"):
        alone = align(model, [(data["x"], data["y"])], estimator=estimator, clusters="per-class").shifts_.values
        for rank in range(2):
            found = json.loads((tmp_path / f"{estimator}{rank}.json").read_text())
            np.testing.assert_allclose(found, alone, atol=1e-6)
