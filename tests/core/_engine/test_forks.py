"""A fork while another thread fits: the child can fit too, with the same result."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks"),
    pytest.mark.promise("Threads, processes and machines change no result", "environments"),
]

_START = """
import os, signal, sys, threading, warnings
import numpy as np
from energyalign import Evidence, FreeEnergy, fit_shifts
from energyalign.core._engine import threads

warnings.simplefilter("ignore")
logits = np.random.default_rng(0).normal(size=(40_000, 50)).astype(np.float32)
labels = np.arange(40_000) % 50

def fit(estimator="lse"):
    evidence = Evidence.from_arrays(logits, labels, counts=[1 + n for n in range(50)], kind="held-out")
    return fit_shifts(evidence, estimator=estimator, clusters="per-class").values.tobytes()

def in_child(work):
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        try:
            os._exit(0 if work() else 3)
        finally:
            os._exit(4)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""

_LOCKED = """
held = threading.Event()
def hold():
    with threads._LINEAR_ALGEBRA._lock:
        held.set()
        threading.Event().wait(1.0)

threading.Thread(target=hold).start()
held.wait()
print(in_child(lambda: len(fit()) > 0))
"""

_LIMITED = """
def n_threads():
    return [library["num_threads"] for library in threads._LINEAR_ALGEBRA._libraries.info()]

entered, done = threading.Event(), threading.Event()
def limit():
    with threads.linear_algebra_in_one_thread():
        entered.set()
        done.wait()

before = n_threads()
threading.Thread(target=limit).start()
entered.wait()
print(in_child(lambda: threads._LINEAR_ALGEBRA._users == 0 and n_threads() == before))
done.set()
with threads.linear_algebra_in_one_thread():
    print(in_child(lambda: threads._LINEAR_ALGEBRA._users == 1 and set(n_threads()) <= {1}))
"""

_IN_A_PROPERTY = """
reached, done = threading.Event(), threading.Event()
def blocks():
    reached.set()
    done.wait()
    yield logits

slow = Evidence.from_blocks(blocks, 40_000, 50)
thread = threading.Thread(target=lambda: slow.free_energy)
thread.start()
reached.wait()
print(in_child(lambda: len(fit()) > 0))
done.set()
"""

_FITTING = """
expected = {estimator: fit(estimator) for estimator in ("lse", "marginal")}
stop = threading.Event()
def fit_all_the_time():
    energies = FreeEnergy(50)
    while not stop.is_set():
        fit()
        energies.update(logits)

thread = threading.Thread(target=fit_all_the_time)
thread.start()
for number in range(int(sys.argv[1])):
    stop.wait(0.003 * (number % 7))
    print(in_child(lambda: all(fit(estimator) == expected[estimator] for estimator in expected)))
stop.set()
"""


def exit_codes(program: str, *arguments: str) -> list[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _START + program, *arguments],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_while_a_thread_holds_the_lock_of_linear_algebra() -> None:
    assert exit_codes(_LOCKED) == ["0"]


def test_limits_of_threads_that_are_gone_are_lifted_and_own_ones_kept() -> None:
    assert exit_codes(_LIMITED) == ["0", "0"]


def test_while_a_thread_computes_a_property() -> None:
    assert exit_codes(_IN_A_PROPERTY) == ["0"]


@pytest.mark.faults
def test_sixty_children_of_a_process_that_fits(trials: Callable[[int], None]) -> None:
    trials(60)
    assert exit_codes(_FITTING, "60") == ["0"] * 60
