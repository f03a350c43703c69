"""Run code in the ranks of a real process group on the CPU."""

from __future__ import annotations

from pathlib import Path

from warm_process import WarmProcess

_START = """
import json, os, signal, sys
from pathlib import Path
sys.path.insert(0, {helpers!r})
import numpy as np
import torch
from lightning_fabric import Fabric
torch.set_num_threads(1)
"""

_END = """
if __name__ == "__main__":
    folder, n_processes = Path(sys.argv[1]), int(sys.argv[2])
    fabric = Fabric(accelerator="cpu", devices=n_processes, strategy="ddp_fork" if n_processes > 1 else "auto")
    fabric.launch(work, folder)
"""


def in_processes(code: str, folder: Path, n_processes: int = 2) -> None:
    """Run `work(fabric, folder)` of the code in several processes, which write their results into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "script.py"
    script.write_text(_START.format(helpers=str(Path(__file__).parent)) + code + _END)
    process = WarmProcess([script, folder, n_processes], folder, folder / "logs")
    assert process.wait() == 0, process.stderr
