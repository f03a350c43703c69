"""Ratios against what a user would pick instead, measured side by side in one run.

Each line alternates the two contestants and compares medians, so that a busy machine slows both. Run with `make bench`.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jenkspy
import numpy as np
import torch
from scipy.optimize import minimize
from scipy.special import logsumexp

from energyalign import Clusters, Evidence, FreeEnergy
from energyalign.core.estimators import make_estimator

ROUNDS = 7


class Line(NamedTuple):
    """One comparison: how many times faster ours is than the peer."""

    what: str
    workload: str
    peer: str
    speedup: float
    spread: float


def compare(what: str, workload: str, peer: str, ours: Callable[[], object], theirs: Callable[[], object]) -> Line:
    """Median of the ratios of alternating runs, after one unmeasured run of each."""
    ours()
    theirs()
    ratios = []
    for _ in range(ROUNDS):
        own, other = _seconds(ours), _seconds(theirs)
        ratios.append(other / own)
    low, _, high = statistics.quantiles(ratios, n=4)
    return Line(what, workload, peer, statistics.median(ratios), high - low)


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def energies() -> list[Line]:
    logits = np.random.default_rng(0).normal(size=(4000, 8142)).astype(np.float32)
    tensor = torch.from_numpy(logits)
    workload = "float32, 4,000 x 8,142"

    def ours() -> object:
        return FreeEnergy().update(logits).values

    return [
        compare("energies", workload, "scipy.special.logsumexp", ours, lambda: logsumexp(logits, axis=0)),
        compare("energies", workload, "torch.logsumexp", ours, lambda: torch.logsumexp(tensor, 0)),
    ]


def marginal() -> list[Line]:
    rng = np.random.default_rng(0)
    labels = np.arange(5000) % 100
    logits = rng.normal(size=(5000, 100)) + 3.0 * np.eye(100)[labels] - np.linspace(0, 4, 100)
    evidence, clusters = Evidence.from_arrays(logits), Clusters.per_class(100)
    tensor = torch.from_numpy(logits)

    def objective(biases: np.ndarray) -> tuple[float, np.ndarray]:
        parameter = torch.from_numpy(biases).requires_grad_()
        loss = torch.logsumexp(tensor + parameter, 1).mean() - parameter.mean()
        loss.backward()
        return loss.item(), parameter.grad.numpy()

    def bias_fit() -> object:
        return minimize(objective, np.zeros(100), jac=True, method="L-BFGS-B", options={"gtol": 1e-10, "ftol": 0.0})

    ours = make_estimator("marginal")
    return [
        compare(
            "marginal", "5,000 x 100", "bias-only L-BFGS on torch", lambda: ours.energies(evidence, clusters), bias_fit
        )
    ]


def jenks() -> list[Line]:
    counts = (1000 * np.exp(-np.linspace(0, 6.2, 8142))).astype(int) + 1
    ours, theirs = lambda: Clusters.jenks(counts, 8), lambda: jenkspy.jenks_breaks(counts, n_classes=8)
    return [compare("Jenks", "8,142 counts, M = 8", "jenkspy itself", ours, theirs)]


def cold_start() -> list[Line]:
    def run(*arguments: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, *arguments], check=True, capture_output=True)

    return [
        compare(
            "cold start",
            "energyalign --help",
            "python -c 'import numpy'",
            run("-m", "energyalign.cli.main", "--help"),
            run("-c", "import numpy"),
        )
    ]


def main() -> None:
    lines = [line for part in (energies, marginal, jenks, cold_start) for line in part()]
    print(f"{'what':12}{'workload':26}{'peer':28}{'times faster':>14}{'spread':>9}")
    for line in lines:
        print(f"{line.what:12}{line.workload:26}{line.peer:28}{line.speedup:14.2f}{line.spread:9.2f}")
    out = Path("bench-results.json")
    out.write_text(json.dumps([line._asdict() for line in lines], indent=2) + "\n")
    print(f"Medians of {ROUNDS} alternating runs; spread is the distance between quartiles. Written to {out}.")


if __name__ == "__main__":
    main()
