"""Free energies of logits in memory: in one call, and in a stream of batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

import numpy as np
import torch
from scipy.special import logsumexp

from bench.line import Line, at_least, at_most
from bench.measure import Work, alternate
from energyalign import FreeEnergy
from energyalign.core._engine.threads import Threads

_DISTINCT_BATCHES = 10  # streamed batches that differ; the rest repeat them
_SHAPES = ((256, 1_000, 100), (256, 8_142, 100), (12_000, 8_142, 1), (50_000, 1_000, 1), (20_000, 8_142, 1))


def lines() -> Iterator[Line]:
    """Compare with the log-sum-exp of torch and SciPy, and with the exponentials alone."""
    yield from beside_torch(deviations=(1, 10))
    logits = np.random.default_rng(0).standard_normal((20_000, 8_142), dtype=np.float32)
    seconds = alternate({"ours": lambda: _energies([logits]), "scipy": lambda: logsumexp(logits, axis=0)})
    yield Line.of(
        "energies, in memory", _describe(20_000, 8_142, 1, 1), "scipy.special.logsumexp(axis=0)", at_least(10),
        ours=seconds["ours"], theirs=seconds["scipy"],
    )  # fmt: skip


def beside_torch(deviations: Sequence[int]) -> Iterator[Line]:
    """Compare with torch for all shapes, on logits of these standard deviations."""
    for rows, classes, updates in _SHAPES:
        for deviation in deviations:
            yield from _of_shape(rows, classes, updates, deviation)


def _of_shape(rows: int, classes: int, updates: int, deviation: int) -> Iterator[Line]:
    rng = np.random.default_rng(0)
    some = [
        deviation * rng.standard_normal((rows, classes), dtype=np.float32)
        for _ in range(min(updates, _DISTINCT_BATCHES))
    ]
    batches = [some[number % len(some)] for number in range(updates)]
    with Threads() as threads:
        torch.set_num_threads(threads.jobs)
    tensors, spare = [torch.from_numpy(batch) for batch in batches], torch.empty(updates * rows, classes)
    workload = _describe(rows, classes, updates, deviation)

    def fill() -> None:
        torch.cat(tensors, out=spare)

    exponentials = alternate(
        {
            "ours": lambda: _energies(batches),
            "torch": Work(spare.exp_, prepare=fill),
            "numpy": Work(lambda: np.exp(spare.numpy(), out=spare.numpy()), prepare=fill),
        }
    )
    seconds = alternate(
        {
            "ours": lambda: _energies(batches),
            "torch": lambda: [torch.logsumexp(tensor, 0) for tensor in tensors],
        }
    )
    yield Line.of(
        "energies, in memory", workload, "torch.logsumexp(x, 0)", at_least(4), ours=seconds["ours"],
        theirs=seconds["torch"], limit="Energies", floor=0.8,
    )  # fmt: skip
    faster = min(exponentials["torch"], exponentials["numpy"], key=median)
    yield Line.of(
        "energies, in memory", workload, "exp in place by the faster of torch and numpy", at_most(1.3),
        ours=exponentials["ours"], theirs=faster, limit="Energies", floor=12.0,
    )  # fmt: skip


def _energies(batches: Sequence[np.ndarray]) -> object:
    energy = FreeEnergy()
    for batch in batches:
        energy.update(batch)
    return energy.values


def _describe(rows: int, classes: int, updates: int, deviation: int) -> str:
    times = f"{updates} updates of " if updates > 1 else ""
    return f"{times}{rows:,} × {classes:,}, standard deviation {deviation}, {torch.get_num_threads()} threads"
