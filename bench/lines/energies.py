"""Free energies of logits in memory."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

import numpy as np
import torch
from scipy.special import logsumexp

from bench.line import Line, at_least, at_most
from bench.measure import Work, alternate
from energyalign import FreeEnergy
from energyalign.core._engine.threads import Threads


def lines() -> Iterator[Line]:
    """Beside the log-sum-exp of torch and SciPy, and beside the exponentials alone."""
    logits = np.random.default_rng(0).standard_normal((20_000, 8_142), dtype=np.float32)
    with Threads() as threads:
        torch.set_num_threads(threads.jobs)
    tensor, spare = torch.from_numpy(logits), torch.empty(logits.shape)
    workload = f"float32 logits 20,000 × 8,142, {torch.get_num_threads()} threads"
    # Not all at once: SciPy leaves gigabytes behind, and whoever comes next would pay for that.
    exponentials = alternate(
        {
            "ours": lambda: FreeEnergy().update(logits).values,
            "torch": Work(spare.exp_, prepare=lambda: spare.copy_(tensor)),
            "numpy": Work(lambda: np.exp(spare.numpy(), out=spare.numpy()), prepare=lambda: spare.copy_(tensor)),
        }
    )
    seconds = alternate(
        {
            "ours": lambda: FreeEnergy().update(logits).values,
            "torch": lambda: torch.logsumexp(tensor, 0),
            "scipy": lambda: logsumexp(logits, axis=0),
        }
    )
    ours = seconds["ours"]
    yield Line.of(
        "energies, in memory", workload, "torch.logsumexp(x, 0)", at_least(2.5), ours=ours, theirs=seconds["torch"]
    )
    yield Line.of(
        "energies, in memory", workload, "scipy.special.logsumexp(axis=0)", at_least(10), ours=ours,
        theirs=seconds["scipy"],
    )  # fmt: skip
    faster = min(exponentials["torch"], exponentials["numpy"], key=median)
    yield Line.of(
        "energies, in memory", workload, "exp in place by the faster of torch and numpy", at_most(1.3),
        ours=exponentials["ours"], theirs=faster,
    )  # fmt: skip
