"""Compiled loops, compared with mpmath, SciPy and array operations."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax
from threadpoolctl import threadpool_limits

from energyalign import Clusters, Evidence
from energyalign.core._engine import compiled
from energyalign.core._engine.compiled import loops, require_installed
from energyalign.core._engine.exponential_sums import SumOfExponentials, read_only
from energyalign.core._engine.parts import Block
from energyalign.core.arrays import Floats
from energyalign.core.errors import EnergyAlignError
from energyalign.core.estimators.marginal import Marginal
from energyalign.core.free_energy import FreeEnergy


def exponentials(values: NDArray[Any]) -> Floats:
    """Return the exponential of each class: the sums of a single row."""
    sums = np.zeros((3, len(values)))
    one = np.ones(1, values.dtype)
    loops.add_exponential_sums(read_only(values[None, :]), np.zeros_like(values), one, one, sums)
    return sums[0]


@pytest.mark.parametrize(("dtype", "edge", "units"), [(np.float32, 80.0, 1.5), (np.float64, 700.0, 4.0)])
def test_the_exponential_is_right_to_the_last_digits(dtype: Any, edge: float, units: float) -> None:
    values = np.concatenate([np.linspace(-edge, edge, 500), np.linspace(-1, 1, 500), [0.0]]).astype(dtype)
    exact = np.array([float(mpmath.exp(mpmath.mpf(float(value)))) for value in values])
    np.testing.assert_allclose(exponentials(values), exact, rtol=units * float(np.finfo(dtype).eps) / 2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_has_no_number(dtype: Any) -> None:
    found = exponentials(np.array([-np.inf, -1e4, 1e4, np.inf, np.nan], dtype=dtype))
    np.testing.assert_array_equal(found, [0, 0, np.inf, np.inf, np.nan])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 2), (63, 511), (65, 513), (200, 1030)])
def test_sums_are_those_of_arrays(dtype: Any, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=shape).astype(dtype)
    weights, repeats = rng.random(shape[0]) + 0.5, rng.integers(1, 4, shape[0]).astype(float)
    energies = [FreeEnergy(shape[1]) for _ in range(2)]
    for energy, by_loops in zip(energies, (True, False), strict=True):
        block = Block(logits, None, weights, repeats, np.arange(len(logits)))
        energy.add(block, SumOfExponentials(compiled=by_loops))
    rtol, atol = (
        (1e-4, 1e-3) if dtype == np.float32 else (1e-11, 1e-6)
    )  # of an exact error of 0, the square root of the rounding error remains
    for name in ("values", "effective_samples", "standard_errors"):
        np.testing.assert_allclose(getattr(energies[0], name), getattr(energies[1], name), rtol=rtol, atol=atol)
    np.testing.assert_allclose(
        energies[0].values, logsumexp(logits.astype(float), axis=0, b=(weights * repeats)[:, None]), rtol=2e-7
    )


@pytest.mark.parametrize("offset", [-1e5, -350.0, -90.0, 0.0, 90.0, 345.0, 352.0, 700.0, 1e5])
@pytest.mark.parametrize("by_loops", [True, False])
def test_sums_of_logits_far_from_0(offset: float, by_loops: bool) -> None:
    logits = np.random.default_rng(0).normal(size=(50, 7))
    near, far = FreeEnergy(7), FreeEnergy(7)
    for energy, values in ((near, logits), (far, logits + offset)):
        values[:, 3] = -np.inf
        for _ in range(3):
            block = Block(values, None, np.ones(50), np.ones(50), np.arange(50))
            energy.add(block, SumOfExponentials(compiled=by_loops))
    np.testing.assert_allclose(far.values, near.values + offset, rtol=1e-9)
    np.testing.assert_allclose(far.effective_samples, near.effective_samples, rtol=1e-9)
    np.testing.assert_allclose(far.standard_errors, near.standard_errors, rtol=1e-9)


@pytest.mark.parametrize("weight", [1e-12, 1e-9, 1e9, 1e15])
def test_the_size_of_weights_says_nothing(weight: float) -> None:
    logits = np.random.default_rng(0).normal(size=(50, 7)).astype(np.float32) - 50.0
    energies = [FreeEnergy().update(logits, weights=np.full(50, w)) for w in (1.0, weight)]
    np.testing.assert_allclose(energies[1].effective_samples, energies[0].effective_samples, rtol=1e-4)


@pytest.mark.parametrize("offset", [-1e5, -600.0, 0.0, 600.0, 1e5])
@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_posteriors(offset: float, temperature: float) -> None:
    rng = np.random.default_rng(0)
    logits, biases = rng.normal(size=(20, 37)) * 5 + offset, rng.normal(size=37)
    logits[4, 5:] = -np.inf
    posteriors, log_partitions = np.empty((20, 37)), np.empty(20)
    loops.fill_posteriors(read_only(logits), biases, temperature, posteriors, log_partitions)
    biased = (logits + biases) / temperature
    np.testing.assert_allclose(posteriors, softmax(biased, axis=1), rtol=1e-9 if abs(offset) > 1e4 else 1e-12)
    np.testing.assert_allclose(log_partitions, logsumexp(biased, axis=1), rtol=1e-13)


def test_rows_without_a_posterior_are_told_by_their_denominator() -> None:
    logits = np.zeros((4, 3))
    logits[0, 1], logits[1, 1], logits[2] = np.nan, np.inf, -np.inf
    posteriors, log_partitions = np.empty((4, 3)), np.empty(4)
    loops.fill_posteriors(read_only(logits), np.zeros(3), 1.0, posteriors, log_partitions)
    assert np.isnan(log_partitions).tolist() == [True, True, True, False]


@pytest.fixture
def always_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("energyalign.core.evidence.worthwhile", lambda *_: True)


def fitted(logits: NDArray[Any], labels: NDArray[Any]) -> Any:
    evidence = Evidence.from_arrays(logits, labels)
    return evidence.free_energy.values, Marginal().energies(evidence, Clusters.from_assignment([0, 1, 2, 3, 3, 4]))


def test_a_whole_fit_is_the_same(always_compiled: None, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(300) % 6
    logits = (rng.normal(size=(300, 6)) + 2 * np.eye(6)[labels] - np.linspace(0, 3, 6)).astype(np.float32)
    values, energies = fitted(logits, labels)
    monkeypatch.undo()
    by_arrays, expected = fitted(logits, labels)
    np.testing.assert_allclose(values, by_arrays, rtol=1e-6)
    np.testing.assert_allclose(energies.values, expected.values, atol=1e-9)
    np.testing.assert_allclose(energies.shift_standard_errors, expected.shift_standard_errors, rtol=1e-7)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_bad_values_are_named_as_ever(always_compiled: None, bad: float) -> None:
    logits = np.zeros((9, 3), dtype=np.float32)
    logits[7, 2] = bad
    with pytest.raises(EnergyAlignError, match="at sample 7, class 2"):
        _ = Evidence.from_arrays(logits).free_energy
    with pytest.raises(EnergyAlignError, match="at sample 7, class 2"):
        Marginal().energies(Evidence.from_arrays(logits), Clusters.per_class(3))


def test_threads_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("energyalign.core.free_energy.worthwhile", lambda *_: True)
    monkeypatch.setattr("energyalign.core.free_energy.NUMBERS_PER_PART", 5000)
    logits = np.random.default_rng(0).normal(size=(1000, 20)).astype(np.float32)
    with threadpool_limits(1, user_api="blas"):
        alone = FreeEnergy().update(logits).values
    with threadpool_limits(3, user_api="blas"):
        assert np.array_equal(FreeEnergy().update(logits).values, alone)


def test_a_numba_that_cannot_be_loaded_is_as_good_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.setattr("energyalign.core._engine.compiled._installed", compiled._installed.__wrapped__)
    assert not compiled.worthwhile(10, 1)


def test_where_numba_is_missing_on_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("energyalign.core._engine.compiled._installed", lambda: False)
    with pytest.raises(EnergyAlignError, match=r"energyalign\[fast\]"):
        require_installed()


def test_numba_can_be_told_to_stay_away() -> None:
    program = "from energyalign.core._engine import compiled; print(compiled.worthwhile(2**40, compiled.ONE_PASS))"
    printed = [
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "NUMBA_DISABLE_JIT": switch}, check=True,
            capture_output=True, text=True,
        ).stdout.strip()
        for switch in ("0", "1")
    ]  # fmt: skip
    assert printed == ["True", "False"]


def test_numba_that_cannot_be_loaded_is_told(tmp_path: Any) -> None:
    """For example for lack of memory: results then differ in their last bits, so a warning is issued."""
    (tmp_path / "numba.py").write_text("raise MemoryError('no memory for LLVM')", encoding="utf-8")
    told = subprocess.run(
        [sys.executable, "-c", "from energyalign.core._engine.compiled import _installed; print(_installed())"],
        env=os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert told.stdout.strip() == "False"
    assert "Numba is installed but cannot be loaded (MemoryError: no memory for LLVM)" in told.stderr


_CACHE_OF_NUMBA = """
from energyalign.core._engine import compiled
compiled.worthwhile(2**40, compiled.ONE_PASS)
import numba
numba.core.config.reload_config()  # as it does when it compiles
print(numba.config.CACHE_DIR)
"""


@pytest.mark.parametrize(("safe_path", "cache"), [("1", ""), ("", "anybodys")], ids=["of our commands", "of others"])
def test_numba_takes_no_orders_from_the_current_folder_of_our_commands(
    tmp_path: Any, safe_path: str, cache: str
) -> None:
    """Its cache consists of pickles."""
    if cache:
        pytest.importorskip("yaml", reason="Numba reads its configuration with PyYAML")
    (tmp_path / ".numba_config.yaml").write_text("cache_dir: anybodys", encoding="utf-8")
    paths = os.pathsep.join(map(os.path.abspath, sys.path))
    told = subprocess.run(
        [sys.executable, "-c", _CACHE_OF_NUMBA], cwd=tmp_path, check=True, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": paths, "PYTHONSAFEPATH": safe_path},
    )  # fmt: skip
    assert told.stdout.strip() == cache
