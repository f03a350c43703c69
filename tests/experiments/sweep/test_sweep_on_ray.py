"""A sweep on a real Ray cluster of two nodes, one of which is killed: the table of a sequential sweep."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.faults,
    pytest.mark.promise("Threads, processes and machines change no result", "environments"),
]

METHODS = ("ce", "ea", "mixup")
SWEEP = [
    "sweep", "longtail", "--cell", "digits-lt-50", "--method", *METHODS, "--seed", "0", "--epochs", "150",
    "--accelerator", "cpu", "--workers", "0",
]  # fmt: skip


@pytest.fixture
def nodes() -> Iterator[tuple[Any, list[Any]]]:
    """Start a head without resources, and two nodes with room for one run each."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    try:
        two = [cluster.add_node(num_cpus=1) for _ in range(2)]
        cluster.wait_for_nodes()
        yield cluster, two
    finally:
        cluster.shutdown()


def command(out: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "energyalign.cli.main", *SWEEP, "--out", str(out), *options]


def results(out: Path) -> dict[str, bytes]:
    """Return rows, weights, logits and manifests of all runs."""
    files = [path for path in sorted(out.glob("digits-lt-50/**/*")) if path.suffix in (".jsonl", ".safetensors")]
    return {str(path.relative_to(out)): path.read_bytes() for path in files}


def runs_of(out: Path) -> dict[str, Any]:
    record = out / "sweep.json"
    found: dict[str, Any] = json.loads(record.read_text())["runs"] if record.exists() else {}
    return found


def test_one_of_two_nodes_is_killed_in_mid_run(nodes: tuple[Any, list[Any]], tmp_path: Path) -> None:
    cluster, (first, _) = nodes
    one_by_one = command(tmp_path / "sequential", "--jobs", "1")
    sequential = subprocess.run(one_by_one, capture_output=True, text=True, check=True)
    out = tmp_path / "ray"
    with (tmp_path / "stderr.txt").open("w") as stderr:
        on_ray = command(out, "--engine", "ray", "--address", cluster.address)
        sweep = subprocess.Popen(on_ray, stdout=subprocess.PIPE, stderr=stderr, text=True)
    while len(list(out.glob("digits-lt-50/*/*/checkpoints"))) < 2:  # both nodes are at work
        assert sweep.poll() is None, (tmp_path / "stderr.txt").read_text()
        time.sleep(0.05)
    cluster.remove_node(first, allow_graceful=False)
    table, _ = sweep.communicate()
    told = (tmp_path / "stderr.txt").read_text()
    assert sweep.returncode == 0, told
    assert table == sequential.stdout
    lost = [about["lost"] for about in runs_of(out).values() if about["lost"]]
    assert len(lost) == 1, told
    assert "It restarts" in told
    logs = [path.read_text() for path in (out / "logs").glob("digits*")]
    assert sum("Resuming from epoch" in log for log in logs) == 1
    assert results(out) == results(tmp_path / "sequential")


def test_a_cluster_of_its_own_which_ends_with_it(tmp_path: Path) -> None:
    """Without an address; the second call has nothing to do."""
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    short = [*command(tmp_path, "--engine", "ray"), "--method", "ce", "--seed", "0", "--epochs", "1"]
    first = subprocess.run(short, capture_output=True, text=True, check=False, env=environment)
    assert first.returncode == 0, first.stderr
    again = subprocess.run(short, capture_output=True, text=True, check=False, env=environment)
    assert "1 of 1 runs were done before." in again.stderr
    assert again.stdout == first.stdout


def test_stopped_its_runs_save(tmp_path: Path) -> None:
    with (tmp_path / "stderr.txt").open("w") as stderr:
        long = [*command(tmp_path / "out", "--engine", "ray", "--jobs", "1"), "--epochs", "5000"]
        sweep = subprocess.Popen(long, stdout=subprocess.DEVNULL, stderr=stderr)
    while not list(tmp_path.glob("out/digits-lt-50/*/*/checkpoints/*")):
        assert sweep.poll() is None, (tmp_path / "stderr.txt").read_text()
        time.sleep(0.05)
    sweep.terminate()
    told = (tmp_path / "stderr.txt").read_text
    assert sweep.wait() == 128 + signal.SIGTERM, told()
    assert "Stopped and saved. To resume:" in told()
    assert sorted(about["state"] for about in runs_of(tmp_path / "out").values()) == ["stopped", "waiting"]
    (log,) = (tmp_path / "out" / "logs").glob("digits*")
    assert "Stopped and saved." in log.read_text()


def test_resources_that_nobody_has(tmp_path: Path) -> None:
    """Ray itself would wait for them forever."""
    ended = subprocess.run(
        command(tmp_path / "out", "--engine", "ray", "--cpus", "4096"), capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert "a run needs 4096 CPUs and 0 GPUs, and no machine of the cluster has both" in ended.stderr


def test_no_cluster_at_that_address(tmp_path: Path) -> None:
    ended = subprocess.run(
        command(tmp_path / "out", "--engine", "ray", "--address", "127.0.0.1:1"),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 2
    assert "no Ray cluster answers at 127.0.0.1:1" in ended.stderr
    assert "Traceback" not in ended.stderr
