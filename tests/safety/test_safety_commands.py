"""No command imports code from the current folder, in any process, or connects to another machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import timm
from command_inputs import save_inputs
from safetensors.torch import save_file

import energyalign

pytestmark = pytest.mark.promise("No command imports from the current folder or contacts another machine", "commands")

NAMES = [
    "array", "asyncio", "concurrent", "csv", "ctypes", "datetime", "decimal", "filelock", "hashlib", "inspect",
    "json", "lightning_fabric", "logging", "matplotlib", "multiprocessing", "numba", "numpy", "onnx",
    "onnxruntime", "pickle", "psutil", "pyarrow", "queue", "random", "ray", "resource", "rich", "safetensors", "scipy",
    "secrets", "selectors", "setproctitle", "shutil", "sklearn", "socket", "ssl", "statistics", "struct", "subprocess",
    "tempfile", "tensorboard", "threadpoolctl", "torch", "torchvision", "typing_extensions", "uuid", "zipfile",
]  # fmt: skip
TRAINED = ["digits", "--epochs", "1", "--batch-size", "64", "--evidence-size", "2", "--accelerator", "cpu"]
RAY_DASHBOARD = "/ray/dashboard/dashboard.py"
LIGHT = {
    "fit": "fit ../logits.npy --labels ../labels.npy --evidence held-out --out shifts.json",
    "fit in processes": "fit ../shards/*.npy --labels ../labels.npy --evidence held-out --jobs 2 --out shifts.json",
    "apply": "apply ../logits.npy --shifts ../shifts.json --out corrected.parquet",
    "onnx": "onnx ../model.onnx --shifts ../shifts.json --out aligned.onnx",
    "list": "list methods",
    "data": "data check digits",
    "report": "report ../runs --out page.html",
    "figure": "figure energies ../runs --out figure.pdf",
    "table": "table longtail ../runs",
    "compare": "compare ../runs",
}
HEAVY = {
    "demo": "demo --out demo",
    "fit on Ray": "fit ../shards/*.npy --labels ../labels.npy --evidence held-out --engine ray --jobs 2",
    "longtail": " ".join(["longtail", *TRAINED, "--corrector raw ea --out run --workers 2"]),
    "longtail with a tracker": " ".join(["longtail", *TRAINED, "--corrector raw --log wandb --out run"]),
    "features": "features digits --model timm:test_vit --weights ../weights.safetensors --out x.safetensors",
    "longtail in two processes": " ".join(["longtail", *TRAINED, "--corrector raw ea --out run --devices 2"]),
    "incremental": " ".join(["incremental", *TRAINED, "--steps 2 --corrector ea --out run"]),
    "sweep": "sweep longtail --cell digits-lt-50 --method ce --seed 0 --epochs 1 --accelerator cpu --out sweep",
    "sweep on Ray": (
        "sweep longtail --cell digits-lt-50 --method ce --seed 0 --epochs 1 --accelerator cpu --engine ray --out sweep"
    ),
}


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Make a folder with a recording module for every name that may be imported, and settings of a library.

    The folder above contains the inputs.
    """
    folder = tmp_path / "hostile"
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'a').write('{name} ')\n")
    (folder / "wandb").mkdir()
    (folder / "wandb" / "settings").write_text("[default]\nmode = online\nbase_url = http://192.0.2.1\n")
    (folder / "matplotlibrc").write_bytes(b"\xff\xfe is no text\n")
    save_inputs(tmp_path)
    (tmp_path / "shards").mkdir()
    for number, rows in enumerate(np.split(np.load(tmp_path / "logits.npy"), 100)):
        np.save(tmp_path / f"shards/{number:03}.npy", rows)
    return folder


def run_safely(program: list[str], folder: Path) -> None:
    """Run in this folder without network; check that no module of the folder was imported."""
    no_network = Path(__file__).parents[1] / "helpers" / "no_network"
    paths = os.pathsep.join([str(no_network), str(Path(energyalign.__file__).parents[1])])
    notes = folder.parent / "network"
    done = subprocess.run(
        [sys.executable, *program], cwd=folder, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": paths, "NETWORK_NOTES": str(notes), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not (folder.parent / "imported").exists(), (folder.parent / "imported").read_text()
    attempts = notes.read_text().splitlines() if notes.exists() else []
    # Ray asks the cloud for the name of its provider, and this cannot be disabled.
    assert [attempt for attempt in attempts if not attempt.endswith(RAY_DASHBOARD)] == []


def script(folder: Path) -> str:
    """Write a console script as pip does: a file in a folder of programs."""
    path = folder.parent / "bin" / "energyalign"
    path.parent.mkdir()
    lines = [
        "import sys",
        "from energyalign.cli.main import main",
        "if __name__ == '__main__':",
        "    sys.exit(main())",
    ]
    path.write_text("\n".join(lines))
    return str(path)


@pytest.mark.parametrize("command", LIGHT.values(), ids=LIGHT)
def test_light_commands(command: str, hostile: Path) -> None:
    run_safely([script(hostile), *command.split()], hostile)


def test_python_m(hostile: Path) -> None:
    """Python itself puts the current folder on the path until our first line runs."""
    run_safely(["-m", "energyalign", *LIGHT["fit in processes"].split()], hostile)


@pytest.mark.parametrize("options", ["-E", "-I"])
def test_python_that_ignores_its_environment(options: str, hostile: Path) -> None:
    """As in the scripts of some distributions. Its children ignore PYTHONSAFEPATH too."""
    program = Path(script(hostile))
    paths = [path for path in sys.path if os.path.isabs(path)]
    program.write_text(f"import sys\nsys.path += {paths}\n{program.read_text()}")
    words = LIGHT["fit in processes"].split()
    done = subprocess.run([sys.executable, options, program, *words], cwd=hostile, check=False, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr
    assert not (hostile.parent / "imported").exists(), (hostile.parent / "imported").read_text()


def test_a_pipe_for_settings_hangs_no_figure(hostile: Path) -> None:
    (hostile / "matplotlibrc").unlink()
    os.mkfifo(hostile / "matplotlibrc")
    run_safely([script(hostile), *LIGHT["figure"].split()], hostile)


def test_onnxruntime_sends_no_statistics(hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would send them from its own threads, where `no_network` sees nothing, and store an identifier first."""
    private = hostile.parent / "private"
    private.mkdir()
    for name in ("HOME", "XDG_CACHE_HOME", "TMPDIR"):
        monkeypatch.setenv(name, str(private))
    monkeypatch.delenv("ORT_DISABLE_TELEMETRY", raising=False)
    run_safely([script(hostile), *LIGHT["onnx"].split()], hostile)
    assert [path for path in private.rglob("*") if path.name in ("Microsoft", ".ses")] == []


@pytest.mark.faults
@pytest.mark.parametrize("command", HEAVY.values(), ids=HEAVY)
def test_heavy_commands(command: str, hostile: Path) -> None:
    save_file(timm.create_model("test_vit").state_dict(), hostile.parent / "weights.safetensors")
    run_safely([script(hostile), *command.split()], hostile)


def test_the_network_is_watched(hostile: Path) -> None:
    """Otherwise the tests above would prove nothing."""
    attempt = "import socket; socket.create_connection(('192.0.2.1', 80), 0.1)"
    with pytest.raises(AssertionError, match="a test has taken the network away"):
        run_safely(["-P", "-c", attempt], hostile)


def test_the_folder_is_watched(hostile: Path) -> None:
    with pytest.raises(AssertionError, match="uuid"):
        run_safely(["-c", "import uuid"], hostile)
