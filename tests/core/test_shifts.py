"""Shifts: added to logits of any array library, and immutable."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import array_api_strict
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from energyalign.core.clusters import Clusters
from energyalign.core.errors import EnergyAlignError
from energyalign.core.shifts import Shifts

Make = Callable[..., Shifts]
VALUES = [1.0, -2.0, 0.5]
LOGITS = np.array([[0.0, 2.0, 1.0], [3.0, 3.0, -1.0]])


class TestApply:
    @pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
    @pytest.mark.parametrize("shape", [(3,), (2, 3), (4, 2, 3), (0, 3), (2, 0, 3)])
    def test_numpy_of_any_shape_keeps_its_dtype(self, plain_shifts: Make, dtype: str, shape: tuple[int, ...]) -> None:
        logits = np.random.default_rng(0).normal(size=shape).astype(dtype)
        before = logits.copy()
        corrected = plain_shifts(VALUES).apply(logits)
        assert corrected.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(corrected, before + np.array(VALUES, dtype=dtype))
        np.testing.assert_array_equal(logits, before)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
    def test_torch_stays_torch(self, plain_shifts: Make, dtype: torch.dtype) -> None:
        logits = torch.tensor(LOGITS, dtype=dtype)
        corrected = plain_shifts(VALUES).apply(logits)
        assert isinstance(corrected, torch.Tensor)
        assert (corrected.dtype, corrected.device) == (dtype, logits.device)
        assert corrected.tolist() == (LOGITS + VALUES).tolist()
        assert logits.tolist() == LOGITS.tolist()

    def test_gradients_pass(self, plain_shifts: Make) -> None:
        logits = torch.tensor(LOGITS, requires_grad=True)
        plain_shifts(VALUES).apply(logits).sum().backward()
        assert logits.grad.tolist() == np.ones((2, 3)).tolist()

    def test_strict_array_api(self, plain_shifts: Make) -> None:
        corrected = plain_shifts(VALUES).apply(array_api_strict.asarray(LOGITS))
        assert isinstance(corrected, type(array_api_strict.asarray(0)))
        np.testing.assert_array_equal(np.asarray(corrected), LOGITS + VALUES)

    def test_a_list_of_rows(self, plain_shifts: Make) -> None:
        np.testing.assert_array_equal(plain_shifts(VALUES).apply(LOGITS.tolist()), LOGITS + VALUES)

    def test_in_place_is_in_place(self, plain_shifts: Make) -> None:
        logits = LOGITS.copy()
        view = logits[1]
        assert plain_shifts(VALUES).apply(logits, inplace=True) is logits
        np.testing.assert_array_equal(logits, LOGITS + VALUES)
        np.testing.assert_array_equal(view, LOGITS[1] + VALUES)
        tensor = torch.tensor(LOGITS)
        address = tensor.data_ptr()
        assert plain_shifts(VALUES).apply(tensor, inplace=True).data_ptr() == address
        assert tensor.tolist() == (LOGITS + VALUES).tolist()

    def test_masked_logits_stay_masked(self, plain_shifts: Make) -> None:
        assert plain_shifts(VALUES).apply(np.array([0.0, -np.inf, 0.0])).tolist() == [1.0, -np.inf, 0.5]

    @pytest.mark.parametrize(
        ("logits", "message"),
        [
            (np.zeros((2, 4)), r"shape \(2, 4\) do not fit shifts for 3 classes"),
            (np.array(0.0), r"shape \(\) do not fit"),
            (np.zeros((2, 3), dtype=int), "must be a floating array, got int64"),
            (np.zeros((2, 3), dtype=bool), "must be a floating array, got bool"),
            (torch.zeros((2, 3), dtype=torch.long), "must be a floating array, got torch.int64"),
            ("logits", "must be a floating array"),
            (np.array([[0.0, np.nan, 0.0]]), r"have NaN, first at \[0, 1\]"),
            (torch.tensor([[0.0, float("nan"), 0.0]]), r"have NaN, first at \[0, 1\]"),
        ],
    )
    def test_what_cannot_be_corrected(self, plain_shifts: Make, logits: Any, message: str) -> None:
        for use in (Shifts.apply, Shifts.predict, Shifts.predict_proba):
            with pytest.raises(EnergyAlignError, match=message):
                use(plain_shifts(VALUES), logits)

    def test_nothing_is_changed_in_place_when_it_is_refused(self, plain_shifts: Make) -> None:
        logits = np.array([[0.0, np.nan, 1.0]])
        with pytest.raises(EnergyAlignError):
            plain_shifts(VALUES).apply(logits, inplace=True)
        assert logits[0, [0, 2]].tolist() == [0.0, 1.0]


class TestPredictions:
    def test_the_largest_corrected_logit(self, plain_shifts: Make) -> None:
        # 1, 0, 1.5 and 4, 1, -0.5
        for logits in (LOGITS, torch.tensor(LOGITS), array_api_strict.asarray(LOGITS)):
            assert plain_shifts(VALUES).predict(logits).tolist() == [2, 0]

    @given(seed=st.integers(0, 2**32 - 1), scale=st.floats(0.01, 1e4))
    def test_probabilities_are_the_softmax(self, plain_shifts: Make, seed: int, scale: float) -> None:
        rng = np.random.default_rng(seed)
        logits, values = rng.normal(size=(10, 5)) * scale, rng.normal(size=5) * 3
        probabilities = plain_shifts(values).predict_proba(logits)
        np.testing.assert_allclose(probabilities, softmax(logits + values, axis=1), rtol=1e-9, atol=1e-300)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-14)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
    def test_half_precision_sums_to_one_too(self, plain_shifts: Make, dtype: torch.dtype) -> None:
        logits = torch.randn(20, 3, generator=torch.Generator().manual_seed(0)).to(dtype)
        probabilities = plain_shifts(VALUES).predict_proba(logits)
        assert probabilities.dtype == torch.float32
        np.testing.assert_allclose(probabilities.sum(-1).numpy(), 1, rtol=1e-6)
        expected = torch.softmax(logits.float() + torch.tensor(VALUES, dtype=torch.float32), -1)
        torch.testing.assert_close(probabilities, expected)

    @pytest.mark.parametrize("size", [2048.0, 10_000.0, -10_000.0])
    def test_a_small_shift_is_not_rounded_away_by_half_precision(self, plain_shifts: Make, size: float) -> None:
        logits = np.full((1, 3), size, dtype=np.float16)
        shifts = plain_shifts([0.0, 0.9, 0.1])
        assert shifts.predict(logits).tolist() == [1]
        np.testing.assert_allclose(shifts.predict_proba(logits), softmax([[0.0, 0.9, 0.1]], axis=1), atol=1e-3)

    def test_any_leading_shape(self, plain_shifts: Make) -> None:
        logits = np.random.default_rng(0).normal(size=(4, 2, 3))
        shifts = plain_shifts(VALUES)
        np.testing.assert_allclose(shifts.predict_proba(logits), softmax(logits + VALUES, axis=-1), rtol=1e-13)
        np.testing.assert_array_equal(shifts.predict(logits), np.argmax(logits + VALUES, axis=-1))
        assert shifts.predict_proba(logits[0, 0]).sum() == pytest.approx(1)

    def test_masked_classes_have_probability_0(self, plain_shifts: Make) -> None:
        assert plain_shifts([0.0, 0.0, 0.0]).predict_proba(np.array([[0.0, -np.inf, 0.0]])).tolist() == [[0.5, 0, 0.5]]

    @pytest.mark.parametrize("row", [[np.inf, 0.0, 0.0], [-np.inf] * 3])
    def test_probabilities_that_are_not_defined(self, plain_shifts: Make, row: list[float]) -> None:
        with pytest.raises(EnergyAlignError, match="its probabilities are undefined"):
            plain_shifts(VALUES).predict_proba(np.array([[0.0, 0.0, 0.0], row]))


class TestWithTarget:
    @given(seed=st.integers(0, 2**32 - 1))
    def test_there_and_back(self, plain_shifts: Make, seed: int) -> None:
        rng = np.random.default_rng(seed)
        shifts, target = plain_shifts(rng.normal(size=4)), rng.dirichlet(np.ones(4)) + 1e-6
        aimed = shifts.with_target(target)
        np.testing.assert_allclose(aimed.values - shifts.values, np.log(target / target.sum() * 4), atol=1e-12)
        back = aimed.with_target(None)
        np.testing.assert_allclose(back.values, shifts.values, atol=1e-12)
        np.testing.assert_allclose(back.target_prior, 0.25, rtol=1e-14)

    def test_probabilities_follow_bayes(self, plain_shifts: Make) -> None:
        balanced = plain_shifts(VALUES).predict_proba(LOGITS)
        target = np.array([0.7, 0.2, 0.1])
        expected = balanced * target / (balanced @ target)[:, None]
        np.testing.assert_allclose(plain_shifts(VALUES).with_target(target * 10).predict_proba(LOGITS), expected)

    def test_a_wrong_target(self, plain_shifts: Make) -> None:
        with pytest.raises(EnergyAlignError, match="target prior must be positive"):
            plain_shifts(VALUES).with_target([1, 0, 1])


class TestFrozen:
    @pytest.mark.parametrize("name", ["values", "standard_errors", "target_prior", "energies", "counts"])
    def test_arrays_cannot_be_written(self, plain_shifts: Make, name: str) -> None:
        shifts = plain_shifts(VALUES, energies=np.ones(3), counts=np.ones(3))
        with pytest.raises(ValueError, match="read-only"):
            getattr(shifts, name)[0] = 5.0
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(shifts, name, np.zeros(3))

    def test_the_arrays_given_are_copied(self, plain_shifts: Make) -> None:
        mine = np.array(VALUES)
        shifts = plain_shifts(mine)
        mine[0] = 99.0  # still mine to write
        assert shifts.values[0] == 1.0

    def test_aligned_energies(self, plain_shifts: Make) -> None:
        assert plain_shifts(VALUES, energies=[1.0, 2, -np.inf]).aligned_energies.tolist() == [2.0, 0.0, -np.inf]
        assert plain_shifts(VALUES).aligned_energies is None

    def test_names(self, plain_shifts: Make) -> None:
        assert plain_shifts(VALUES).names_of([2, 0]) == ["2", "0"]
        assert plain_shifts(VALUES, class_names=("a", "b", "c")).names_of([2, 0]) == ["c", "a"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"values": [0.0, np.nan, 0.0]}, "values must be finite, got nan for class 1"),
        ({"values": [0.0, 0.0, np.inf]}, "values must be finite, got inf for class 2"),
        ({"clusters": Clusters.per_class(4)}, r"values must have shape \(4,\), one per class, got \(3,\)"),
        ({"standard_errors": np.zeros(2)}, r"standard_errors must have shape \(3,\), one per class, got \(2,\)"),
        ({"counts": np.zeros((3, 1))}, r"counts must have shape \(3,\), one per class, got \(3, 1\)"),
        ({"target_prior": [0.5, 0.5, 0.0]}, "target_prior must be positive and sum to one"),
        ({"target_prior": [0.5, 0.5, 0.5]}, "target_prior must be positive and sum to one"),
        ({"class_names": ("a", "b")}, "got 2 class names for 3 classes"),
    ],
)
def test_what_cannot_be_shifts(plain_shifts: Make, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(EnergyAlignError, match=message):
        plain_shifts(**{"values": VALUES, **wrong})


class TestFiles:
    def test_saved_and_loaded(self, plain_shifts: Make, tmp_path: Path) -> None:
        path = tmp_path / "shifts.json"
        path.write_text("something older")
        plain_shifts(VALUES).save(path)
        assert Shifts.load(str(path)).values.tolist() == VALUES
        assert os.listdir(tmp_path) == ["shifts.json"]

    def test_a_missing_folder_is_refused_and_nothing_is_left(self, plain_shifts: Make, tmp_path: Path) -> None:
        with pytest.raises(EnergyAlignError, match=r"cannot write .*No such file or directory"):
            plain_shifts(VALUES).save(tmp_path / "none" / "shifts.json")
        assert os.listdir(tmp_path) == []

    def test_a_directory_is_refused(self, plain_shifts: Make, tmp_path: Path) -> None:
        with pytest.raises(EnergyAlignError, match="is a directory"):
            plain_shifts(VALUES).save(tmp_path)
        with pytest.raises(EnergyAlignError, match="cannot read shifts from"):
            Shifts.load(tmp_path)

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(EnergyAlignError, match=r"cannot read shifts from .*none\.json: .*No such file"):
            Shifts.load(tmp_path / "none.json")

    def test_text_that_is_not_utf_8(self, tmp_path: Path) -> None:
        (tmp_path / "a.json").write_bytes(b'{"schema": "\xff\xfe"}')
        with pytest.raises(EnergyAlignError, match=r"cannot read shifts from .*a\.json: .*utf-8"):
            Shifts.load(tmp_path / "a.json")

    def test_a_wrong_file_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "a.json").write_text("[1, 2]")
        with pytest.raises(EnergyAlignError, match=r"a\.json: not a file of shifts"):
            Shifts.load(tmp_path / "a.json")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_many_predictions_are_those_of_each_row(dtype: type, plain_shifts: Make) -> None:
    shifts = plain_shifts([1.0, -2.0, 0.5])
    logits = np.random.default_rng(1).normal(size=(150_001, 3)).astype(dtype)
    exact = np.float32 if dtype == np.float16 else dtype
    expected = (logits.astype(exact) + shifts.values.astype(exact)).argmax(1)
    assert np.array_equal(shifts.predict(logits), expected)
    logits[140_000, 2] = np.nan
    with pytest.raises(EnergyAlignError, match=r"NaN, first at \[140000, 2\]"):
        shifts.predict(logits)
    with pytest.raises(EnergyAlignError, match=r"shape \(150001, 2\)"):
        shifts.predict(logits[:, :2])


class TestScaled:
    def test_multiplies_the_correction_and_the_target(self, plain_shifts: Make) -> None:
        aimed = plain_shifts(VALUES).with_target([0.5, 0.3, 0.2])
        half = aimed.scaled(0.5)
        np.testing.assert_allclose(half.values, 0.5 * aimed.values)
        np.testing.assert_allclose(half.target_prior, np.sqrt([0.5, 0.3, 0.2]) / np.sqrt([0.5, 0.3, 0.2]).sum())
        assert half.strength == 0.5
        back, plain = half.with_target(None).values, plain_shifts(VALUES).scaled(0.5).values
        np.testing.assert_allclose(back - back[0], plain - plain[0], atol=1e-12)
        np.testing.assert_array_equal(aimed.scaled(0).values, 0)
        assert np.all(aimed.scaled(1e4).target_prior > 0)
        np.testing.assert_allclose(aimed.scaled(1).target_prior, aimed.target_prior)
        np.testing.assert_array_equal(plain_shifts(VALUES).scaled(0).values, 0)
        np.testing.assert_array_equal(plain_shifts(VALUES).scaled(1).values, VALUES)

    def test_at_strength_0_an_unknown_error_is_0_too(self, plain_shifts: Make) -> None:
        raw = plain_shifts(VALUES, standard_errors=np.array([0.0, np.inf, 0.1])).scaled(0.0)
        np.testing.assert_array_equal(raw.standard_errors, 0)

    def test_a_strength_that_is_no_number(self, plain_shifts: Make) -> None:
        with pytest.raises(EnergyAlignError, match="strength must be finite, got nan"):
            plain_shifts(VALUES).scaled(float("nan"))


def test_shifts_for_another_score_have_no_other_target(plain_shifts: Make) -> None:
    shifts = dataclasses.replace(plain_shifts(VALUES), scoring="f1_macro")
    with pytest.raises(EnergyAlignError, match="fitted for f1_macro: fit again"):
        shifts.with_target([0.5, 0.3, 0.2])


def test_the_summary_has_the_shifts_and_the_concerns(plain_shifts: Make) -> None:
    shifts = dataclasses.replace(plain_shifts(VALUES), concerns=("too few samples.",), class_names=("a", "b", "c"))
    lines = shifts.summary().splitlines()
    assert [line.split()[-1] for line in lines[1:4]] == ["a", "c", "b"]
    assert lines[-1] == "Concerns: too few samples."
    many = plain_shifts(np.arange(50.0).tolist(), concerns=("one.", "two.")).summary().splitlines()
    assert [line.split()[-1] for line in many[1:8]] == ["49", "48", "47", "more", "2", "1", "0"]
    assert many[4] == "  ... 44 more"
    assert many[8:] == ["Concerns: one. two."]
    hostile = dataclasses.replace(shifts, class_names=("a", "b\x1b[2J", "c"), concerns=("see b\x07",)).summary()
    assert not set(hostile) & {"\x1b", "\x07"}
    assert repr(shifts).startswith("Shifts(3 classes, estimator=")
    two = plain_shifts([0.0, 1.0], scoring="f1", class_names=("ham", "spam"))
    assert two.summary().startswith("Shifts of 2 classes by lse (per-class) for f1 of class spam, from ")
