"""Written files are equal on systems without features of Linux and macOS."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import os, signal, sys
from pathlib import Path

# Other libraries have their own ways on other systems: they are loaded before anything is taken away.
import numpy as np
import filelock, onnx, onnxruntime, pyarrow.parquet, pyarrow.compute, rich.console, safetensors.torch, scipy.stats
import sklearn.linear_model, threadpoolctl, torch
from onnx import helper, numpy_helper

threadpoolctl.ThreadpoolController()  # finds the C library with os.uname, and remembers it

if sys.argv[1] == "poor":
    for name in (
        "fchmod", "fchown", "chown", "lchown", "fork", "forkpty", "setsid", "killpg", "getpgid", "geteuid", "getuid",
        "getgid", "uname", "statvfs", "mkfifo", "sched_getaffinity", "sched_setaffinity", "register_at_fork",
        "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_SYNC", "fdatasync", "posix_fadvise", "sysconf",
    ):
        if hasattr(os, name):
            delattr(os, name)
    for name in ("SIGHUP", "SIGKILL", "SIGALRM", "SIGUSR1", "SIGCHLD", "pthread_sigmask", "sigwaitinfo", "alarm"):
        if hasattr(signal, name):
            delattr(signal, name)
    for name in ("fcntl", "resource", "pwd", "grp", "termios"):
        sys.modules[name] = None
    os_open = os.open

    def open_as_windows(path, *rest, **options):
        if isinstance(path, (str, os.PathLike)) and os.path.isdir(path):
            raise PermissionError(13, "Permission denied")
        return os_open(path, *rest, **options)

    os.open = open_as_windows

from energyalign import Evidence, Shifts, fit_shifts
from energyalign.cli.main import main
from energyalign.experiments.train.checkpoint import Checkpoint, save_checkpoint
from energyalign.experiments.train.checkpoint import Position
from energyalign.experiments.train.run_directory import RunDirectory
from energyalign.experiments.train.tensor_file import load_arrays, save_arrays
import energyalign.pytorch

rng = np.random.default_rng(0)
labels = rng.integers(0, 3, 300)
logits = (rng.normal(size=(300, 3)) + 2 * np.eye(3)[labels] + [1.0, 0.0, -1.0]).astype(np.float32)
np.save("logits.npy", logits)
np.save("labels.npy", labels)
Path("counts.json").write_text("[400, 90, 12]")
fit_shifts(Evidence.from_arrays(logits, labels, counts=[400, 90, 12])).save("saved.json")
assert main("fit logits.npy --labels labels.npy --counts counts.json --out shifts.json".split()) == 0
for ending in ("npy", "csv", "parquet"):
    assert main(f"apply logits.npy --shifts shifts.json --out corrected.{ending}".split()) == 0
assert main("apply corrected.parquet --shifts shifts.json --out twice.npy".split()) == 0

weight = numpy_helper.from_array(rng.normal(size=(3, 5)).astype(np.float32), "weight")
bias = numpy_helper.from_array(np.zeros(3, np.float32), "bias")
graph = helper.make_graph(
    [helper.make_node("Gemm", ["x", "weight", "bias"], ["logits"], transB=1)], "model",
    [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 5])],
    [helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, ["n", 3])], [weight, bias],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
Path("model.onnx").write_bytes(model.SerializeToString())
assert main("onnx model.onnx --shifts shifts.json --out aligned.onnx".split()) == 0

run = RunDirectory(Path("run"))
run.path.mkdir()
run.write_json("config.json", {"seed": 0, "name": "Größe"})
run.write_rows([{"method": "raw", "accuracy": 0.5}])
run.note_command("energyalign longtail digits")
assert run.read_rows() == [{"method": "raw", "accuracy": 0.5}]
assert run.read_commands() == ["energyalign longtail digits"]
save_arrays(run.path / "test_logits.safetensors", {"logits": logits, "labels": labels})
assert np.array_equal(load_arrays(run.path / "test_logits.safetensors")["labels"], labels)
torch.manual_seed(0)
network = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD(network.parameters(), 0.1, momentum=0.9)
network(torch.randn(8, 4)).square().sum().backward()
optimizer.step()
path = save_checkpoint(run.checkpoints, Position(1), network, optimizer, config="settings")
Checkpoint(path, "settings").restore(network, optimizer)
"""


def files_written(folder: Path, kind: str) -> dict[str, bytes]:
    """Write everything in a child process; return the contents of the files by path."""
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-P", "-c", SCRIPT, kind], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_same_files_are_written(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    ordinary = files_written(tmp_path / "ordinary", "ordinary")
    assert len(ordinary) == 16
    assert files_written(tmp_path / "poor", "poor") == ordinary
