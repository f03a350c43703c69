"""Work in threads."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from energyalign.core._engine.parts import Rows, Stretch
from energyalign.core._engine.threads import Threads, ThreadsOfEachPass


def slow_square(number: int) -> int:
    time.sleep(0.02 if number == 0 else 0.0)
    return number**2


def test_results_come_in_the_order_of_the_work() -> None:
    with threadpool_limits(3, user_api="blas"), Threads() as threads:
        assert list(threads.map_all(slow_square, list(range(20)))) == [number**2 for number in range(20)]


def test_as_many_threads_as_linear_algebra_has_and_no_more_within_them() -> None:
    both = threading.Barrier(2)

    def within(_: int) -> tuple[int, int]:
        both.wait(timeout=30)  # two at once, or it breaks
        with Threads() as inner:
            return threading.get_ident(), inner.jobs

    with threadpool_limits(2, user_api="blas"), Threads() as threads:
        found = list(threads.map_all(within, [0, 1]))
    assert len({thread for thread, _ in found}) == 2
    assert [jobs for _, jobs in found] == [1, 1]


def test_an_error_in_a_thread_is_raised_here() -> None:
    def fail(number: int) -> int:
        raise ValueError(f"number {number}")

    with threadpool_limits(2, user_api="blas"), Threads() as threads, pytest.raises(ValueError, match="number 0"):
        list(threads.map_all(fail, [0, 1, 2]))


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_linear_algebra_has_its_threads_again_whoever_ends_first() -> None:
    with threadpool_limits(2, user_api="blas"):
        first, second = Threads(), Threads()
        first.__enter__()
        second.__enter__()
        assert (first.jobs, second.jobs, blas_threads()) == (2, 2, {1})
        first.__exit__()
        assert blas_threads() == {1}
        second.__exit__()
        assert blas_threads() == {2}


def test_linear_algebra_has_its_threads_again_after_an_error_and_when_nobody_wants_the_rest() -> None:
    with threadpool_limits(2, user_api="blas"):
        with pytest.raises(ZeroDivisionError), Threads():
            raise ZeroDivisionError
        results = ThreadsOfEachPass().map(
            lambda stretch: stretch, [Stretch(Rows(np.zeros((9, 3))), 0, 3, None, None, None, None)] * 4
        )
        next(results)
        results.close()
        assert blas_threads() == {2}


_FITS = """
import hashlib, warnings
import numpy as np
from energyalign.core.evidence import Evidence
from energyalign.core.fitting import fit_shifts
from energyalign.core.target_prior import estimate_target_prior

warnings.simplefilter("ignore")
found = []
for n_samples, n_classes, estimator, clusters in (
    (20_000, 300, "auto", "auto"), (20_000, 300, "marginal", "monotone"), (3_000, 128, "marginal", "per-class"),
):
    logits = np.random.default_rng(0).normal(size=(n_samples, n_classes)).astype(np.float32)
    logits -= np.linspace(0, 3, n_classes, dtype=np.float32)
    labels = np.arange(n_samples) % n_classes
    evidence = Evidence.from_arrays(logits, labels, counts=np.arange(n_classes, 0, -1))
    shifts = fit_shifts(evidence, estimator=estimator, clusters=clusters)
    found += [shifts.values, shifts.standard_errors]
    if n_classes == 128:
        found.append(estimate_target_prior(logits, shifts, tolerance=1e-4))
print(hashlib.sha256(b"".join(numbers.tobytes() for numbers in found)).hexdigest())
"""


@pytest.mark.promise("Threads, processes and machines change no result", "environments")
def test_the_number_of_threads_changes_no_bit_of_a_fit() -> None:
    def fitted(threads: int) -> str:
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        environment = {**os.environ, **dict.fromkeys(names, str(threads))}
        command = [sys.executable, "-c", _FITS]
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout

    assert fitted(1) == fitted(2)
