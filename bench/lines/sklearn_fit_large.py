"""Fitting through the scikit-learn wrapper on data that takes seconds to fit."""

from __future__ import annotations

from collections.abc import Iterator

from bench.line import Line
from bench.lines.sklearn_fit import fit_lines, job_lines


def full_lines() -> Iterator[Line]:
    """Measure each classifier in one thread, then in two processes."""
    yield from fit_lines(20_000, 50, {}, limit="")
    yield from job_lines(20_000, 50)
