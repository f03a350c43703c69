"""Results are bitwise equal for all engines and numbers of jobs."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from energyalign import EnergyAlignError, Evidence, fit_shifts
from energyalign.core._engine.parts import IN_TURN
from energyalign.core._engine.threads import Threads, _LinearAlgebra
from energyalign.core._io.shifts_json import dump
from energyalign.core.before_after import before_and_after, scores_with
from energyalign.core.target_prior import estimate_target_prior
from energyalign.files import open_shards
from energyalign.files.engines import open_engine

pytestmark = pytest.mark.filterwarnings("ignore::energyalign.core.errors.UntrustedEstimateWarning")

COUNTS = [300, 100, 40, 20, 5]


def write_shards(folder: Path, logits: np.ndarray, cuts: list[int]) -> list[Path]:
    """Write the logits into .npy files divided at the cuts, every third one in Fortran order."""
    paths = []
    for number, rows in enumerate(np.split(logits, cuts)):
        paths.append(folder / f"{number:04}.npy")
        np.save(paths[-1], np.asfortranarray(rows) if number % 3 == 2 else rows)
    return paths


def all_of(paths: list[Path], labels: np.ndarray | None, engine: Any, estimator: str, clusters: str) -> list[Any]:
    """Compute everything that needs passes over the evidence."""
    shards = open_shards(paths)
    evidence = Evidence.from_parts(
        shards.parts(), shards.n_classes, labels, counts=COUNTS, kind="held-out", engine=engine
    )
    shifts = fit_shifts(evidence, estimator=estimator, clusters=clusters)
    found: list[Any] = [dump(shifts), estimate_target_prior(evidence, shifts, tolerance=0.1).tobytes()]
    if labels is not None:
        for scores in (before_and_after(evidence, shifts), scores_with(evidence, shifts.values)):
            found += [part.tobytes() for s in scores for part in (s.right, s.right_top_k, s.total)]
    return found


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_random_shards_and_cuts(pools: dict[int, Any], monkeypatch: pytest.MonkeyPatch, data: st.DataObject) -> None:
    n_rows = data.draw(st.integers(60, 160), "rows")
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1), "seed"))
    labels = rng.permutation(np.arange(n_rows) % 5)
    dtype = data.draw(st.sampled_from([np.float16, np.float32, np.float64]), "dtype")
    logits = (rng.normal(size=(n_rows, 5)) + 2 * np.eye(5)[labels] + np.log(COUNTS)).astype(dtype)
    cuts = sorted(data.draw(st.sets(st.integers(1, n_rows - 1), max_size=12), "cuts"))
    monkeypatch.setattr("energyalign.files.shards.MIN_ROWS", data.draw(st.integers(10, 50), "rows of a part"))
    monkeypatch.setattr("energyalign.files.shards.PART_BYTES", 1)
    monkeypatch.setattr("energyalign.files.shards.MAX_SHARDS", data.draw(st.integers(1, 4), "shards of a part"))
    estimator = data.draw(st.sampled_from(["auto", "lse", "marginal", "shrunk", "prior"]), "estimator")
    clusters = data.draw(st.sampled_from(["auto", "per-class", "monotone", "2"]), "clusters")
    known = data.draw(st.sampled_from([labels, None]), "labels")
    with tempfile.TemporaryDirectory() as folder:
        paths = write_shards(Path(folder), logits, cuts)
        assert len(open_shards(paths).parts()) > 1
        with threadpool_limits(1, user_api="blas"):
            expected = all_of(paths, known, IN_TURN, estimator, clusters)
            jobs = data.draw(st.sampled_from([2, 3]), "jobs")
            assert all_of(paths, known, pools[jobs], estimator, clusters) == expected


@pytest.mark.parametrize("estimator", ["lse", "marginal", "shrunk"])
def test_wide_logits_on_any_number_of_threads(
    tmp_path: Path, pools: dict[int, Any], monkeypatch: pytest.MonkeyPatch, estimator: str
) -> None:
    # Enough numbers for BLAS to use threads, and for the solver without a curvature matrix.
    rng = np.random.default_rng(0)
    np.save(tmp_path / "a.npy", rng.normal(size=(900, 1100)).astype(np.float32))
    shards = open_shards([tmp_path / "a.npy"])
    monkeypatch.setattr("energyalign.files.shards.PART_BYTES", 2**20)
    assert len(shards.parts()) == 4

    def fitted(engine: Any) -> str:
        evidence = Evidence.from_parts(shards.parts(), 1100, engine=engine)
        return dump(fit_shifts(evidence, estimator=estimator, clusters="per-class"))

    expected = fitted(pools[2])
    for threads in (1, 3):
        with threadpool_limits(threads, user_api="blas"), Threads() as engine:
            assert fitted(engine) == expected
            assert (engine._pool is not None) == (threads > 1)


def test_every_format_is_sent_to_other_processes(tmp_path: Path, pools: dict[int, Any]) -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(200, 5))
    names = ["a", "b", "c", "d", "e"]
    np.save(tmp_path / "1.npy", logits[:50])
    np.savez_compressed(tmp_path / "2.npz", logits=logits[50:90])
    np.savez(tmp_path / "3.npz", logits=np.asfortranarray(logits[90:100]))
    pd.DataFrame(logits[100:150], columns=names).to_parquet(tmp_path / "4.parquet", row_group_size=7)
    pd.DataFrame(logits[150:], columns=names).to_csv(tmp_path / "5.csv", index=False)
    shards = open_shards(sorted(tmp_path.iterdir()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("energyalign.files.shards.MIN_ROWS", 20)
        patch.setattr("energyalign.files.shards.PART_BYTES", 1)
        parts = shards.parts()
    # .npy is divided by rows, .parquet by row groups, other formats not at all; small files share a part.
    assert [part.n_rows for part in parts] == [20, 20, 10, 40, 10, 14, 14, 14, 8, 50]
    evidence = Evidence.from_parts(parts, 5, engine=pools[2])
    with threadpool_limits(1, user_api="blas"):
        in_turn = Evidence.from_parts(parts, 5)
        assert np.array_equal(evidence.free_energy.values, in_turn.free_energy.values)
    np.testing.assert_allclose(in_turn.free_energy.values, np.log(np.exp(logits).sum(0)), rtol=1e-12)


@pytest.mark.parametrize("jobs", [None, 2])
def test_blas_has_its_threads_again_afterwards(jobs: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    # BLAS libraries are searched once per process, perhaps by an earlier test before SciPy loaded its own.
    monkeypatch.setattr("energyalign.core._engine.threads._LINEAR_ALGEBRA", _LinearAlgebra())

    def blas_threads() -> list[int]:
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    with threadpool_limits(2, user_api="blas"):
        with open_engine("local", jobs=jobs):
            assert set(blas_threads()) == {1}
        assert set(blas_threads()) == {2}


def test_one_job_has_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("energyalign.core._engine.threads._LINEAR_ALGEBRA", _LinearAlgebra())
    with threadpool_limits(2, user_api="blas"):
        for jobs, expected in ((None, 2), (1, 1)):
            with open_engine("local", jobs=jobs) as engine:
                assert isinstance(engine, Threads)
                assert engine.jobs == expected


@pytest.mark.parametrize("how", ["threads", "processes"])
def test_the_first_bad_value_is_named_by_its_place_in_the_whole(
    tmp_path: Path, pools: dict[int, Any], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    logits = np.zeros((300, 3))
    logits[250, 1], logits[133, 2] = np.inf, np.nan
    paths = write_shards(tmp_path, logits, [100, 200])
    monkeypatch.setattr("energyalign.files.shards.MAX_SHARDS", 1)
    monkeypatch.setattr("energyalign.core._engine.threads.MIN_NUMBERS", 1)
    shards = open_shards(paths)
    with threadpool_limits(2, user_api="blas"), Threads() as threads:
        evidence = Evidence.from_parts(shards.parts(), 3, engine=threads if how == "threads" else pools[2])
        with pytest.raises(EnergyAlignError, match="NaN at sample 133, class 2"):
            _ = evidence.free_energy
        # And the engine is as good as before.
        good = Evidence.from_parts(open_shards(paths[:1] * 3).parts(), 3, engine=evidence.engine)
        assert np.allclose(good.free_energy.values, np.log(300))


def test_parts_do_not_depend_on_anything_but_the_files(tmp_path: Path) -> None:
    paths = write_shards(tmp_path, np.zeros((100, 3)), list(range(1, 100)))
    parts = open_shards(paths).parts()
    assert [part.n_rows for part in parts] == [32, 32, 32, 4]
    np.save(tmp_path / "long.npy", np.zeros((2**21, 2), dtype=np.float32))
    assert [part.n_rows for part in open_shards([tmp_path / "long.npy"]).parts()] == [2**21]
    np.save(tmp_path / "longer.npy", np.zeros((2**21 + 5, 2), dtype=np.float32))
    assert [part.n_rows for part in open_shards([tmp_path / "longer.npy"]).parts()] == [2**21, 5]
