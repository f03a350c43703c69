"""FreeEnergy compared with cases by hand, mpmath with 50 digits, properties, and simulation."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import array_api_strict
import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.special import logsumexp

from energyalign.core.clusters import Clusters
from energyalign.core.errors import EnergyAlignError
from energyalign.core.free_energy import FreeEnergy

# e^f of 4 samples (rows) and 3 classes. Class 2 is masked for the third sample.
HAND = np.array([[1.0, 2, 4], [3, 2, 4], [4, 2, 0], [8, 2, 8]])


def hand_logits() -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(HAND)


def assert_same(first: FreeEnergy, second: FreeEnergy, rtol: float = 1e-11) -> None:
    """Check that two accumulators give equal results."""
    assert first.n_samples == pytest.approx(second.n_samples, rel=1e-14)
    np.testing.assert_allclose(first.values, second.values, rtol=1e-13, atol=rtol)
    np.testing.assert_allclose(first.effective_samples, second.effective_samples, rtol=rtol)
    # Compare variances: a standard error of 0 is the square root of a difference of equal numbers.
    np.testing.assert_allclose(first.standard_errors**2, second.standard_errors**2, rtol=rtol, atol=1e-12 + rtol / 1000)


def exact(logits: np.ndarray, weights: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return values and effective samples with 50 digits."""
    weights = np.ones(len(logits)) if weights is None else weights
    values, effective = [], []
    with mpmath.workdps(50):
        for column in logits.T:
            terms = [
                mpmath.mpf(float(w)) * mpmath.exp(mpmath.mpf(float(f))) for w, f in zip(weights, column, strict=True)
            ]
            total = mpmath.fsum(terms)
            values.append(float(mpmath.log(total)))
            effective.append(float(total**2 / mpmath.fsum(term**2 for term in terms)))
    return np.array(values), np.array(effective)


class TestByHand:
    def test_values_are_the_logarithms_of_column_sums(self) -> None:
        assert np.exp(FreeEnergy().update(hand_logits()).values) == pytest.approx([16, 8, 16], rel=1e-14)

    def test_effective_samples(self) -> None:
        # (Σ e^f)² / Σ e^2f: 256/90, 64/16, 256/96
        effective = FreeEnergy().update(hand_logits()).effective_samples
        assert effective == pytest.approx([2.8444444444444446, 4.0, 2.6666666666666665], rel=1e-14)

    def test_standard_errors(self) -> None:
        # √(1/ESS - 1/4): √0.1015625, √0, √0.125
        errors = FreeEnergy().update(hand_logits()).standard_errors
        assert errors == pytest.approx([0.318688720, 0.0, 0.353553391], abs=1e-8)

    def test_standard_errors_of_shifts_per_class(self) -> None:
        # against class 1: √(90/256 + 1/4), 0, √(96/256 + 1/4)
        energy = FreeEnergy().update(hand_logits())
        errors = energy.shift_standard_errors(Clusters((0, 1, 2), anchor=1))
        assert errors == pytest.approx([0.775604603, 0.0, 0.790569415], abs=1e-9)

    def test_standard_errors_of_shifts_per_cluster(self) -> None:
        # classes 0 and 2 together: √((90/256 + 96/256) / 2² + 1/4)
        energy = FreeEnergy().update(hand_logits())
        errors = energy.shift_standard_errors(Clusters((0, 1, 0), anchor=1))
        assert errors == pytest.approx([0.656993626, 0.0], abs=1e-9)

    def test_weights(self) -> None:
        energy = FreeEnergy().update(hand_logits(), weights=[1, 0.5, 2, 0.25])
        # Σ w e^f: 1+1.5+8+2, 2+1+4+.5, 4+2+0+2; Σ (w e^f)²: 1+2.25+64+4, 4+1+16+.25, 16+4+0+4
        assert np.exp(energy.values) == pytest.approx([12.5, 7.5, 8.0], rel=1e-14)
        assert energy.effective_samples == pytest.approx([156.25 / 71.25, 56.25 / 21.25, 64 / 24], rel=1e-14)
        assert energy.n_samples == 4

    def test_weighted_standard_error_is_that_of_the_weighted_mean(self) -> None:
        weights = np.array([1, 0.5, 2, 0.25])
        # √Σ w² (e^f - m)² / Σ w e^f with m the weighted mean
        mean = weights @ HAND / weights.sum()
        expected = np.sqrt(weights**2 @ (HAND - mean) ** 2) / (weights @ HAND)
        errors = FreeEnergy().update(hand_logits(), weights=weights).standard_errors
        assert errors == pytest.approx(expected, abs=1e-8)


MAGNITUDES: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "ordinary": lambda rng: rng.normal(scale=3, size=(40, 4)),
    "around 1e4": lambda rng: 1e4 + rng.normal(scale=3, size=(40, 4)),
    "around -1e4": lambda rng: -1e4 + rng.normal(scale=3, size=(40, 4)),
    "mixed": lambda rng: rng.normal(size=(40, 4)) * 10 ** rng.uniform(-3, 4, size=(40, 4)),
    "one class far below": lambda rng: rng.normal(size=(40, 4)) + np.array([0, -1e4, 1e4, 5]),
}


class TestPrecision:
    # Reference: the sum with 50 digits over the same numbers. float64 is exact to a few units in the last place of a
    # value; half and single precision are summed in float32 within a piece.
    @pytest.mark.parametrize("magnitude", MAGNITUDES)
    @pytest.mark.parametrize(("dtype", "tolerance"), [("f8", 1e-13), ("f4", 1e-6), ("f2", 1e-6)])
    def test_against_fifty_digits(self, magnitude: str, dtype: str, tolerance: float) -> None:
        logits = MAGNITUDES[magnitude](np.random.default_rng(0)).astype(dtype)
        values, effective = exact(logits)
        energy = FreeEnergy().update(logits)
        np.testing.assert_allclose(energy.values, values, rtol=4e-16, atol=tolerance)
        np.testing.assert_allclose(energy.effective_samples, effective, rtol=10 * tolerance)

    @pytest.mark.parametrize("dtype", [">f8", ">f4", "<f8", np.longdouble])
    def test_byte_order_and_long_double_lose_no_precision(self, dtype: Any) -> None:
        logits = MAGNITUDES["around 1e4"](np.random.default_rng(1)).astype(dtype)
        values, _ = exact(logits)
        single = np.dtype(dtype).itemsize == 4
        np.testing.assert_allclose(FreeEnergy().update(logits).values, values, rtol=4e-16, atol=1e-6 if single else 0)

    @pytest.mark.parametrize("magnitude", MAGNITUDES)
    def test_weighted_against_fifty_digits(self, magnitude: str) -> None:
        rng = np.random.default_rng(2)
        logits, weights = MAGNITUDES[magnitude](rng), rng.exponential(size=40) ** 3
        values, effective = exact(logits, weights)
        energy = FreeEnergy().update(logits, weights=weights)
        np.testing.assert_allclose(energy.values, values, rtol=4e-16, atol=1e-13)
        np.testing.assert_allclose(energy.effective_samples, effective, rtol=1e-12)

    def test_half_a_million_float32_samples_in_one_block(self) -> None:
        logits = np.random.default_rng(3).normal(size=(500_000, 2)).astype(np.float32)
        expected = logsumexp(logits.astype(np.float64), axis=0)
        # A running sum in float32 has an error of 8e-6 here, which grows with the number of terms.
        np.testing.assert_allclose(FreeEnergy().update(logits).values, expected, rtol=0, atol=1e-7)

    def test_rounding_does_not_add_up_over_a_repeated_pattern(self) -> None:
        # In float32, repeating the same rounding error would grow with the length of a sum.
        pattern = np.random.default_rng(3).normal(size=(1000, 50)).astype(np.float32)
        tiled = FreeEnergy().update(np.tile(pattern, (60, 1)))
        expected = logsumexp(pattern.astype(np.float64), axis=0) + np.log(60)
        np.testing.assert_allclose(tiled.values, expected, rtol=0, atol=2e-7)

    def test_ten_million_samples_by_doubling(self) -> None:
        energy = FreeEnergy().update(hand_logits())
        start = FreeEnergy().merge(energy)
        for _ in range(22):  # 4 · 2²² = 16.8 million
            energy.merge(energy)
        assert energy.n_samples == 4 * 2**22
        np.testing.assert_allclose(energy.values, start.values + 22 * np.log(2), rtol=1e-15)
        np.testing.assert_allclose(energy.effective_samples, start.effective_samples * 2**22, rtol=1e-14)

    def test_thousands_of_tiny_blocks(self) -> None:
        logits = np.random.default_rng(4).normal(scale=2, size=(9_000, 3)).astype(np.float32)
        energy = FreeEnergy()
        for start in range(0, len(logits), 3):
            energy.update(logits[start : start + 3])
        wide = logits.astype(np.float64)
        np.testing.assert_allclose(energy.values, logsumexp(wide, axis=0), rtol=0, atol=1e-7)
        effective = np.exp(2 * logsumexp(wide, axis=0) - logsumexp(2 * wide, axis=0))
        np.testing.assert_allclose(energy.effective_samples, effective, rtol=1e-6)

    def test_a_later_larger_peak_keeps_what_came_before(self) -> None:
        energy = FreeEnergy(2).update(np.array([[0.0, 0.0]])).update(np.array([[30.0, -30.0]]))
        assert energy.values == pytest.approx([np.logaddexp(0, 30), np.logaddexp(0, -30)], rel=1e-15)


class TestNamespaces:
    @pytest.mark.parametrize(
        ("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-6), (torch.bfloat16, 1e-6)]
    )
    @pytest.mark.parametrize("magnitude", ["ordinary", "around 1e4", "mixed"])
    def test_torch(self, dtype: torch.dtype, tolerance: float, magnitude: str) -> None:
        logits = torch.tensor(MAGNITUDES[magnitude](np.random.default_rng(0))).to(dtype).requires_grad_()
        weights = torch.linspace(0.5, 2, 40)
        same = logits.detach().to(torch.float64).numpy()
        energy = FreeEnergy().update(logits, weights=weights)
        expected = FreeEnergy().update(same, weights=weights.numpy())
        assert_same(energy, expected, rtol=10 * tolerance)

    @pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float32", 1e-6)])
    def test_strict_array_api(self, dtype: str, tolerance: float) -> None:
        logits = MAGNITUDES["mixed"](np.random.default_rng(0)).astype(dtype)
        logits[3, 1] = -np.inf
        weights = np.linspace(0, 2, 40)
        block = array_api_strict.asarray(logits)
        energy = FreeEnergy().update(block, weights=array_api_strict.asarray(weights))
        assert_same(energy, FreeEnergy().update(logits.astype(np.float64), weights=weights), rtol=10 * tolerance)

    def test_a_torch_block_never_becomes_a_numpy_array_as_a_whole(self, guarded: Callable[[np.ndarray], Any]) -> None:
        logits = np.random.default_rng(0).normal(size=(50, 3))
        energy = FreeEnergy().update(guarded(logits), weights=np.linspace(0, 2, 50))
        expected = logsumexp(logits, axis=0, b=np.linspace(0, 2, 50)[:, None])
        np.testing.assert_allclose(energy.values, expected, rtol=1e-13)


class TestMasking:
    def test_minus_infinity_adds_nothing(self) -> None:
        logits = np.random.default_rng(0).normal(size=(30, 3))
        masked = logits.copy()
        masked[[2, 5, 7], 1] = -np.inf
        energy = FreeEnergy().update(masked)
        kept = np.delete(logits[:, 1], [2, 5, 7])
        assert energy.values[1] == pytest.approx(logsumexp(kept), rel=1e-14)
        assert energy.values[0] == pytest.approx(logsumexp(logits[:, 0]), rel=1e-14)

    def test_a_class_that_is_masked_everywhere_is_defined(self) -> None:
        logits = np.array([[0.0, -np.inf], [1.0, -np.inf]])
        energy = FreeEnergy().update(logits).update(logits.astype(np.float32))
        assert energy.values[1] == -np.inf
        assert energy.effective_samples[1] == 0
        assert energy.standard_errors[1] == np.inf
        assert energy.shift_standard_errors(Clusters((0, 1)))[1] == np.inf
        assert np.isfinite(energy.standard_errors[0])

    def test_a_class_masked_in_the_first_block_can_appear_in_the_second(self) -> None:
        energy = FreeEnergy().update(np.array([[0.0, -np.inf]])).update(np.array([[0.0, -50.0]]))
        assert energy.values == pytest.approx([np.log(2), -50.0], rel=1e-14)
        assert energy.effective_samples == pytest.approx([2.0, 1.0])

    def test_masked_classes_stay_out_of_the_mean_of_their_cluster(self) -> None:
        energy = FreeEnergy().update(np.array([[0.0, 0.0, -np.inf], [0.0, 1.0, -np.inf]]))
        with_masked = energy.shift_standard_errors(Clusters((0, 1, 1)))
        alone = energy.shift_standard_errors(Clusters((0, 1, 2)))
        assert with_masked[1] == pytest.approx(alone[1])


logit_blocks = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 12), st.just(3)),
    elements=st.one_of(st.floats(-1e4, 1e4), st.floats(-3, 3), st.just(-np.inf)),
)


class TestMerge:
    @given(st.lists(logit_blocks, min_size=1, max_size=5), st.randoms(use_true_random=False))
    def test_any_order_and_nesting_is_one_update(self, blocks: list[np.ndarray], random: Any) -> None:
        whole = FreeEnergy().update(np.concatenate(blocks))
        in_turn = reduce(FreeEnergy.update, blocks, FreeEnergy())
        shuffled = blocks.copy()
        random.shuffle(shuffled)
        parts = [FreeEnergy().update(block) for block in shuffled]
        while len(parts) > 1:  # merge random pairs: a random tree
            one = parts.pop(random.randrange(len(parts)))
            parts[random.randrange(len(parts))].merge(one)
        assert_same(in_turn, whole)
        assert_same(parts[0], whole)

    @given(logit_blocks, logit_blocks, logit_blocks)
    def test_associative_and_commutative(self, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
        def of(block: np.ndarray) -> FreeEnergy:
            return FreeEnergy().update(block, weights=np.linspace(0.1, 3, len(block)))

        assert_same(of(a).merge(of(b)).merge(of(c)), of(a).merge(of(b).merge(of(c))))
        assert_same(of(a).merge(of(b)), of(b).merge(of(a)))

    @pytest.mark.parametrize("higher", [7, 900])  # of the same reference and of another
    def test_merging_changes_only_the_receiver(self, higher: int) -> None:
        other = FreeEnergy().update(hand_logits())
        before = FreeEnergy().merge(other)
        FreeEnergy().update(hand_logits() + higher).merge(other)
        assert_same(other, before)

    def test_an_unused_accumulator_is_neutral(self) -> None:
        energy = FreeEnergy().update(hand_logits())
        assert_same(FreeEnergy().merge(energy).merge(FreeEnergy()).merge(FreeEnergy(3)), energy)

    def test_different_numbers_of_classes_are_refused(self) -> None:
        with pytest.raises(EnergyAlignError, match="energies of 2 classes into energies of 3"):
            FreeEnergy(3).merge(FreeEnergy(2))

    @pytest.mark.parametrize("rows", [7, 1000, 4097])
    def test_blocks_of_any_size(self, rows: int) -> None:
        logits = np.random.default_rng(5).normal(scale=10, size=(9000, 3))
        energy = FreeEnergy()
        for start in range(0, len(logits), rows):
            energy.update(logits[start : start + rows])
        assert_same(energy, FreeEnergy().update(logits))
        np.testing.assert_allclose(energy.values, logsumexp(logits, axis=0), rtol=1e-14)


class TestWeightsAndRepeats:
    @given(logit_blocks, st.data())
    def test_repeats_are_repetition_in_everything(self, logits: np.ndarray, data: st.DataObject) -> None:
        repeats = np.array(data.draw(st.lists(st.integers(0, 4), min_size=len(logits), max_size=len(logits))))
        weights = np.linspace(0.5, 2, len(logits))
        if repeats.sum() == 0:
            repeats[0] = 1
        repeated = FreeEnergy().update(np.repeat(logits, repeats, axis=0), weights=np.repeat(weights, repeats))
        assert_same(FreeEnergy().update(logits, weights=weights, repeats=repeats), repeated)

    @given(logit_blocks, st.data())
    def test_weights_give_the_values_of_repetition(self, logits: np.ndarray, data: st.DataObject) -> None:
        weights = np.array(data.draw(st.lists(st.integers(0, 4), min_size=len(logits), max_size=len(logits))))
        weights[0] += 1
        repeated = FreeEnergy().update(np.repeat(logits, weights, axis=0))
        weighted = FreeEnergy().update(logits, weights=weights)
        np.testing.assert_allclose(weighted.values, repeated.values, rtol=1e-13, atol=1e-11)

    def test_weights_do_not_inflate_the_evidence(self) -> None:
        logits = np.random.default_rng(0).normal(size=(20, 3))
        plain = FreeEnergy().update(logits)
        heavy = FreeEnergy().update(logits, weights=np.full(20, 100.0))
        np.testing.assert_allclose(heavy.effective_samples, plain.effective_samples, rtol=1e-13)
        np.testing.assert_allclose(heavy.standard_errors, plain.standard_errors, rtol=1e-9)
        one = FreeEnergy().update(np.zeros((2, 2)), weights=[1e6, 1.0])
        assert one.effective_samples == pytest.approx([1.000002, 1.000002], abs=1e-9)

    def test_a_repeated_sample_counts_as_often_as_it_was_seen(self) -> None:
        energy = FreeEnergy().update(np.zeros((1, 2)), repeats=[1e7])
        assert energy.n_samples == 1e7
        assert energy.effective_samples == pytest.approx([1e7, 1e7], rel=1e-15)
        assert energy.values == pytest.approx([np.log(1e7)] * 2, rel=1e-15)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("option", ["weights", "repeats"])
    def test_a_sample_that_does_not_count_hides_no_other(self, dtype: type, option: str) -> None:
        logits = np.array([[1e4, 0.0], [2.0, 1.0]], dtype=dtype)
        energy = FreeEnergy().update(logits, **{option: [0.0, 1.0]})
        assert energy.values == pytest.approx([2.0, 1.0])
        assert energy.effective_samples == pytest.approx([1.0, 1.0])

    @pytest.mark.parametrize("option", ["weights", "repeats"])
    def test_a_block_that_does_not_count_hides_no_other(self, option: str) -> None:
        energy = FreeEnergy().update(np.zeros((2, 2)), **{option: [0.0, 0.0]}).update(np.array([[-1e3, -400.0]]))
        assert energy.values == pytest.approx([-1e3, -400.0])
        assert energy.effective_samples == pytest.approx([1.0, 1.0])

    def test_weights_that_vary_between_pieces(self) -> None:
        rng = np.random.default_rng(1)
        logits, weights = rng.normal(size=(9000, 2)), rng.uniform(0, 5, size=9000)
        expected = logsumexp(logits, axis=0, b=weights[:, None])
        np.testing.assert_allclose(FreeEnergy().update(logits, weights=weights).values, expected, rtol=1e-13)


class TestRefusals:
    @pytest.mark.parametrize(("value", "name"), [(np.nan, "NaN"), (np.inf, r"\+inf")])
    @pytest.mark.parametrize("row", [0, 8999])
    @pytest.mark.parametrize("make", [np.asarray, torch.asarray, array_api_strict.asarray])
    def test_a_bad_value_is_named_and_nothing_is_kept(self, value: float, name: str, row: int, make: Any) -> None:
        energy = FreeEnergy().update(hand_logits())
        before = FreeEnergy().merge(energy)
        block = np.zeros((9000, 3))
        block[row, 2] = value
        with pytest.raises(EnergyAlignError, match=rf"{name} at sample {row}, class 2 "):
            energy.update(make(block))
        assert_same(energy, before, rtol=0)

    def test_a_bad_value_of_weight_zero_is_refused_too(self) -> None:
        with pytest.raises(EnergyAlignError, match="NaN at sample 1, class 0"):
            FreeEnergy().update(np.array([[0.0, 0.0], [np.nan, 0.0]]), weights=[1, 0])

    def test_a_refused_first_block_does_not_fix_the_number_of_classes(self) -> None:
        energy = FreeEnergy()
        with pytest.raises(EnergyAlignError, match="NaN"):
            energy.update(np.array([[np.nan, 0.0, 0.0]]))
        assert energy.update(np.zeros((1, 2))).n_classes == 2

    @pytest.mark.parametrize(
        ("logits", "message"),
        [
            (np.zeros((4, 2)), "has 2 class columns, but 3 were expected"),
            (np.zeros(3), r"two dimensions .* got shape \(3,\)"),
            (np.zeros((2, 2, 3)), r"two dimensions .* got shape \(2, 2, 3\)"),
            (np.zeros((4, 3), dtype=int), "floating point, got int64"),
            (np.zeros((4, 3), dtype=bool), "floating point, got bool"),
            (np.zeros((4, 3), dtype=complex), "floating point, got complex128"),
            ([[1, 2, 3]], "floating point, got int64"),
            (torch.zeros((4, 3), dtype=torch.int32), "floating point, got torch.int32"),
            ("logits", "must be an array .* got str"),
        ],
    )
    def test_what_is_not_a_table_of_logits(self, logits: Any, message: str) -> None:
        energy = FreeEnergy().update(hand_logits())
        with pytest.raises(EnergyAlignError, match=message):
            energy.update(logits)
        assert_same(energy, FreeEnergy().update(hand_logits()), rtol=0)

    def test_fewer_than_two_classes(self) -> None:
        with pytest.raises(EnergyAlignError, match="must have at least 2 class columns, got 1"):
            FreeEnergy().update(np.zeros((4, 1)))
        with pytest.raises(EnergyAlignError, match="n_classes must be >= 2, got 1"):
            FreeEnergy(1)

    @pytest.mark.parametrize("energy", [FreeEnergy(), FreeEnergy(3), FreeEnergy().update(np.zeros((0, 3)))])
    @pytest.mark.parametrize("quantity", ["values", "effective_samples", "standard_errors"])
    def test_nothing_has_no_energy(self, energy: FreeEnergy, quantity: str) -> None:
        with pytest.raises(EnergyAlignError, match="at least one sample of positive weight"):
            getattr(energy, quantity)

    def test_an_empty_block_adds_nothing(self) -> None:
        assert_same(FreeEnergy().update(hand_logits()).update(np.zeros((0, 3))), FreeEnergy().update(hand_logits()))

    def test_only_weights_of_zero(self) -> None:
        with pytest.raises(EnergyAlignError, match="at least one sample of positive weight"):
            _ = FreeEnergy().update(np.zeros((2, 2)), weights=[0, 0]).values

    @pytest.mark.parametrize("name", ["weights", "repeats"])
    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ([1.0, 2.0], r"must have shape \(4,\), one per sample, got \(2,\)"),
            ([1.0, 2.0, 3.0, -1.0], "finite and >= 0"),
            ([1.0, 2.0, 3.0, np.nan], "finite and >= 0"),
            ([1.0, 2.0, 3.0, np.inf], "finite and >= 0"),
        ],
    )
    def test_wrong_weights_and_repeats(self, name: str, values: list[float], message: str) -> None:
        with pytest.raises(EnergyAlignError, match=f"{name} .*{message}|{name} {message}"):
            FreeEnergy().update(hand_logits(), **{name: values})


def replicate(draw: Callable[[np.random.Generator], np.ndarray], clusters: Clusters, n: int = 600) -> dict[str, Any]:
    """Return the spread of values and shifts over independent samples, and the mean predicted errors."""
    rng = np.random.default_rng(11)
    values, shifts, errors, shift_errors = [], [], [], []
    for _ in range(n):
        energy = FreeEnergy().update(draw(rng))
        means = clusters.sums(energy.values) / clusters.sizes()
        values.append(energy.values)
        shifts.append(means[clusters.anchor] - means)
        errors.append(energy.standard_errors)
        shift_errors.append(energy.shift_standard_errors(clusters))
    return {
        "spread": np.std(values, axis=0),
        "predicted": np.mean(errors, axis=0),
        "shift_spread": np.std(shifts, axis=0)[1:],
        "shift_predicted": np.mean(shift_errors, axis=0)[1:],
    }


class TestStandardErrorsAgainstSimulation:
    @staticmethod
    def disjoint(rng: np.random.Generator) -> np.ndarray:
        """Draw samples that each contribute to one of four classes only."""
        logits = rng.normal(-30, 0.1, size=(400, 4))
        carried = rng.integers(0, 4, size=400)
        logits[np.arange(400), carried] = rng.normal(0, 0.7, size=400)
        return logits

    def test_values_and_shifts_of_classes_that_share_no_sample(self) -> None:
        result = replicate(self.disjoint, Clusters((0, 1, 2, 3)))
        np.testing.assert_allclose(result["predicted"], result["spread"], rtol=0.15)
        np.testing.assert_allclose(result["shift_predicted"], result["shift_spread"], rtol=0.15)

    def test_shifts_of_clusters_that_share_no_sample(self) -> None:
        result = replicate(self.disjoint, Clusters((0, 1, 1, 1)))
        np.testing.assert_allclose(result["shift_predicted"], result["shift_spread"], rtol=0.15)

    def test_shifts_of_positively_correlated_classes_are_on_the_safe_side(self) -> None:
        def correlated(rng: np.random.Generator) -> np.ndarray:
            return rng.normal(0, 1, size=(300, 1)) + rng.normal(0, 0.3, size=(300, 3))

        result = replicate(correlated, Clusters((0, 1, 2)), n=300)
        np.testing.assert_allclose(result["predicted"], result["spread"], rtol=0.15)
        assert np.all(result["shift_predicted"] > 1.5 * result["shift_spread"])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("unit", [1e-100, 1e-45, 1e-30, 1e-22, 1e19, 1e30, 1e99])
def test_weights_of_any_size(unit: float, dtype: Any) -> None:
    """A common factor shifts all values equally, exactly so if it is a power of 2."""
    rng = np.random.default_rng(0)
    logits, weights = rng.normal(size=(300, 5)).astype(dtype), rng.uniform(1, 2, 300)
    plain = FreeEnergy().update(logits, weights=weights)
    scaled = FreeEnergy().update(logits, weights=unit * weights)
    np.testing.assert_allclose(scaled.values, plain.values + np.log(unit), rtol=1e-6)
    np.testing.assert_allclose(scaled.effective_samples, plain.effective_samples, rtol=1e-6)
    np.testing.assert_allclose(scaled.standard_errors, plain.standard_errors, rtol=1e-5)
    doubled = FreeEnergy().update(logits, weights=2.0**40 * weights)
    assert doubled.effective_samples.tolist() == plain.effective_samples.tolist()
    repeated = FreeEnergy().update(logits, repeats=unit * weights)
    np.testing.assert_allclose(
        repeated.effective_samples / unit, FreeEnergy().update(logits, repeats=weights).effective_samples, rtol=1e-6
    )


@pytest.mark.parametrize("make", [np.asarray, torch.asarray])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("low", [-100.0, -19.0])
def test_weights_of_very_different_sizes(dtype: str, make: Any, low: float) -> None:
    logits = np.array([[40.0, low, 0.0], [low, low, -np.inf], [1.0, 2.0, low], [9.0, 9.0, 9.0]]).astype(dtype)
    weights = np.array([1e-23, 1.0, 1e-90, 0.0])
    values, effective = exact(logits, weights)
    energy = FreeEnergy().update(make(logits), weights=weights)
    np.testing.assert_allclose(energy.values, values, rtol=1e-6)
    np.testing.assert_allclose(energy.effective_samples, effective, rtol=1e-6)
    assert energy.n_samples == 4
    many = FreeEnergy().update(make(logits), repeats=weights)
    np.testing.assert_allclose(many.values, values, rtol=1e-6)


@pytest.mark.parametrize("name", ["weights", "repeats"])
@pytest.mark.parametrize("value", [1e-101, 1e101])
def test_weights_whose_squares_are_no_numbers_are_refused(name: str, value: float) -> None:
    with pytest.raises(EnergyAlignError, match=f"{name} must be 0 or between 1e-100 and 1e100"):
        FreeEnergy().update(np.zeros((2, 2)), **{name: [1.0, value]})
