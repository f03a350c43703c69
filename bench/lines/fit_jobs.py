"""A large fit from shards by two processes with one thread each."""

from __future__ import annotations

from collections.abc import Iterator

from bench.command import energyalign
from bench.line import Line, at_least
from bench.lines.fit_memory import write_shards
from bench.measure import alternate
from bench.scratch import scratch_folder

SHARDS, ROWS = 20, 50_000  # of 1,000 classes: 4 GB


def full_lines() -> Iterator[Line]:
    """Compare with one process with one thread; the files are in the page cache."""
    with scratch_folder() as folder:
        files, n_classes = write_shards(folder, SHARDS, ROWS)
        for estimator in ("lse", "marginal", "auto"):
            words = ["fit", *files, "--estimator", estimator, "--quiet", "--out", folder / "shifts.json"]
            seconds = alternate({jobs: energyalign(*words, "--jobs", jobs) for jobs in ("2", "1")}, rounds=3)
            yield Line.of(
                "fit --jobs 2", f"{SHARDS * ROWS:,} × {n_classes:,} in {SHARDS} shards, --estimator {estimator}",
                "--jobs 1", at_least(1.7), ours=seconds["2"], theirs=seconds["1"],
            )  # fmt: skip
