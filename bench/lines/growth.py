"""Growth of time and memory with samples, classes and clusters: log-log slopes over at least three sizes."""

from __future__ import annotations

import tempfile
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

from bench.line import Line
from bench.lines.marginal import biased_logits
from bench.measure import alternate
from energyalign import Clusters, Evidence, FreeEnergy
from energyalign.core.arrays import row_pieces
from energyalign.core.before_after import scores_with
from energyalign.core.estimators.marginal import Marginal
from energyalign.core.fitting import fit_shifts
from energyalign.core.natural_breaks import natural_breaks
from energyalign.pytorch.collect import collect_evidence
from energyalign.report.page.fit_page import write_fit_page

# Linear or n log n growth, with room for the noise of a fit to few points.
_LINEAR = 1.1
_NEARLY_LINEAR = 1.25
_QUADRATIC = 2.1
_CONSTANT = 0.2

Make = Callable[[int], Callable[[], object]]


def full_lines() -> Iterator[Line]:
    """Measure everything whose size users choose."""
    yield from _lines(
        "energies", "samples", (10_000, 20_000, 40_000), lambda n: _energies(n, 1_000), of="1,000 classes",
        memory=_CONSTANT,
    )  # fmt: skip
    yield from _lines(
        "energies", "classes", (500, 1_000, 2_000), lambda k: _energies(10_000, k), of="10,000 samples", memory=_LINEAR
    )
    # From this size on, compiled loops process all numbers. Sizes on both sides would show the change of loops, not the
    # growth.
    yield from _lines(
        "energies", "samples", (140_000, 200_000, 280_000), lambda n: _energies(n, 1_000), of="1,000 classes"
    )
    yield from _lines(
        "marginal", "samples", (60_000, 120_000, 240_000), lambda n: _marginal(n, 500), of="500 classes",
        memory=_CONSTANT,
    )  # fmt: skip
    yield from _lines(
        "marginal", "classes", (250, 500, 1_000), lambda k: _marginal(40_000, k), of="40,000 samples", memory=_LINEAR,
        limit="Memory",
    )  # fmt: skip
    yield from _lines(
        "marginal", "classes", (1_100, 2_200, 4_400), lambda k: _marginal(8_000, k), of="8,000 samples", memory=_LINEAR
    )
    yield from _lines(
        "marginal", "clusters", (10, 40, 160), lambda m: _marginal_in_clusters(m, 20_000, 640),
        of="20,000 samples of 640 classes", memory=_LINEAR,
    )  # fmt: skip
    yield from _lines(
        "Jenks", "counts", (4_000, 16_000, 64_000), lambda n: _jenks(n, 8), of="8 clusters", time=_NEARLY_LINEAR,
        memory=_LINEAR,
    )  # fmt: skip
    yield from _lines("Jenks", "clusters", (10, 20, 40), lambda m: _jenks(8_142, m), of="8,142 counts", memory=_LINEAR)
    yield from _lines("evidence", "samples", (5_000, 10_000, 20_000), lambda n: _collected(n, 100), of="100 classes")
    yield from _lines("evidence", "classes", (100, 200, 400), lambda k: _collected(5_000, k), of="5,000 samples")
    # A page holds at most this many logits; these are more.
    yield from _lines(
        "report", "samples", (100_000, 200_000, 400_000), lambda n: _report(n, 100), of="100 classes",
        memory=_CONSTANT,
    )  # fmt: skip
    yield from _lines(
        "report", "classes", (200, 400, 800), lambda k: _report(8_000, k), of="8,000 samples", memory=_LINEAR
    )


def _lines(
    subject: str,
    what: str,
    sizes: Sequence[int],
    make: Make,
    *,
    of: str,
    time: float = _LINEAR,
    memory: float | None = None,
    limit: str = "",
) -> Iterator[Line]:
    works = {str(size): make(size) for size in sizes}
    name, workload = f"growth of {subject}", f"{', '.join(f'{size:,}' for size in sizes)} {what}, {of}"
    seconds = list(alternate(works).values())
    yield Line.exponent(
        name, workload, time, curve=list(zip(sizes, map(median, seconds), strict=True)),
        slopes=[_slope(sizes, taken) for taken in zip(*seconds, strict=True)], unit="s",
    )  # fmt: skip
    if memory is not None:
        taken = [_largest_allocated(work) for work in works.values()]
        yield Line.exponent(
            # Use the two largest sizes: a fixed cost would hide the growth among smaller ones.
            name, workload, memory, curve=list(zip(sizes, taken, strict=True)), slopes=[_slope(sizes[-2:], taken[-2:])],
            unit="bytes", limit=limit, floor=_QUADRATIC,
        )  # fmt: skip


def _slope(sizes: Sequence[int], values: Sequence[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def _largest_allocated(work: Callable[[], object]) -> float:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _energies(n_samples: int, n_classes: int) -> Callable[[], object]:
    logits = biased_logits(n_samples, n_classes)
    return lambda: FreeEnergy().update(logits).values


def _marginal(n_samples: int, n_classes: int) -> Callable[[], object]:
    logits = biased_logits(n_samples, n_classes)
    return lambda: Marginal().energies(Evidence.from_arrays(logits), Clusters.per_class(n_classes))


def _marginal_in_clusters(n_clusters: int, n_samples: int, n_classes: int) -> Callable[[], object]:
    logits = biased_logits(n_samples, n_classes)
    clusters = Clusters.given([number * n_clusters // n_classes for number in range(n_classes)])
    return lambda: Marginal().energies(Evidence.from_arrays(logits), clusters)


def _jenks(n_counts: int, n_clusters: int) -> Callable[[], object]:
    counts = np.sort(np.random.default_rng(0).pareto(1.0, n_counts))
    return lambda: natural_breaks(counts, n_clusters)


def _collected(n_samples: int, n_classes: int) -> Callable[[], object]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, n_classes)).eval()
    samples = TensorDataset(torch.randn(n_samples, 256), torch.arange(n_samples) % n_classes)
    return lambda: collect_evidence(model, DataLoader(samples, batch_size=256))


def _report(n_samples: int, n_classes: int) -> Callable[[], object]:
    logits, labels = biased_logits(n_samples, n_classes), np.arange(n_samples) % n_classes

    def write() -> None:
        evidence = Evidence.from_arrays(logits, labels, counts=np.arange(n_classes, 0, -1))
        shifts = fit_shifts(evidence, estimator="prior", clusters="per-class")
        with tempfile.TemporaryDirectory() as folder:
            write_fit_page(
                Path(folder) / "page.html", name="bench", command="make bench-full",
                blocks=lambda: (block for _, block in row_pieces(logits, 4_096)), labels=labels, evidence=evidence,
                shifts=shifts, scores=scores_with(evidence, shifts.values),
            )  # fmt: skip

    return write
