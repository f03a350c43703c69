"""Evidence: weights, counts, subsets, and sources that are read several times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import array_api_strict
import numpy as np
import pytest
import torch
from scipy.special import log_softmax, logsumexp

from energyalign.core.checks import check_counts, check_labels
from energyalign.core.clusters import Clusters
from energyalign.core.errors import EnergyAlignError
from energyalign.core.estimators import make_estimator
from energyalign.core.evidence import Evidence
from energyalign.core.fitting import fit_shifts
from energyalign.core.free_energy import FreeEnergy

LOGITS = np.random.default_rng(0).normal(size=(6, 3)) * 2


def all_of(evidence: Evidence, rows: int = 4096) -> dict[str, np.ndarray]:
    blocks = list(evidence.blocks(rows))
    names = ("logits", "labels", "weights", "repeats", "samples")
    return {name: np.concatenate([np.asarray(getattr(block, name)) for block in blocks]) for name in names}


class TestBalancing:
    def test_every_class_present_weighs_the_same(self) -> None:
        evidence = Evidence.from_arrays(LOGITS, [0, 0, 0, 1, 1, 2])
        # 6 samples over 3 classes: 2 for each class, spread over its 3, 2 and 1 samples.
        assert all_of(evidence)["weights"] == pytest.approx([2 / 3, 2 / 3, 2 / 3, 1, 1, 2])
        assert evidence.total_weight == pytest.approx(6)

    def test_classes_that_are_not_there_leave_their_share_to_the_others(self) -> None:
        evidence = Evidence.from_arrays(LOGITS, [0, 0, 0, 0, 2, 2])
        assert all_of(evidence)["weights"] == pytest.approx([0.75] * 4 + [1.5] * 2)
        assert evidence.unseen.tolist() == [False, True, False]

    def test_without_labels_all_samples_weigh_the_same(self) -> None:
        assert [w for block in Evidence.from_arrays(LOGITS).blocks() for w in block.weights] == [1.0] * 6

    def test_repeats_count_as_samples(self) -> None:
        repeated = Evidence.from_arrays(np.repeat(LOGITS, [3, 1, 2, 1, 1, 1], axis=0), [0, 0, 0, 0, 1, 1, 1, 2, 2])
        evidence = Evidence.from_arrays(LOGITS, [0, 0, 1, 1, 2, 2], repeats=[3, 1, 2, 1, 1, 1])
        assert evidence.label_counts.tolist() == [4, 3, 2]
        np.testing.assert_allclose(evidence.free_energy.values, repeated.free_energy.values, rtol=1e-14)
        errors = (e.free_energy.standard_errors for e in (evidence, repeated))
        np.testing.assert_allclose(*errors, rtol=1e-9)

    def test_an_imbalanced_sample_serves_as_well_as_a_resampled_one(self) -> None:
        labels = np.array([0, 0, 0, 1, 1, 2])
        resampled = np.repeat(LOGITS, [2, 2, 2, 3, 3, 6], axis=0)
        weighted = Evidence.from_arrays(LOGITS, labels).free_energy
        assert np.ptp(weighted.values - logsumexp(resampled, axis=0)) == pytest.approx(0, abs=1e-13)
        assert np.all(weighted.effective_samples <= 6 + 1e-12)  # drawing more often is not knowing more


class TestCounts:
    def test_labels_stand_in_for_missing_counts(self) -> None:
        evidence = Evidence.from_arrays(LOGITS, [0, 0, 0, 1, 1, 2])
        assert evidence.counts.tolist() == [3, 2, 1]
        assert evidence.counts_from_labels

    def test_equal_numbers_of_labels_say_nothing(self) -> None:
        assert Evidence.from_arrays(LOGITS, [0, 0, 1, 1, 2, 2]).counts is None

    def test_labels_that_miss_a_class_say_nothing(self) -> None:
        assert Evidence.from_arrays(LOGITS, [0, 0, 0, 0, 1, 1]).counts is None

    def test_given_counts_are_kept(self) -> None:
        evidence = Evidence.from_arrays(LOGITS, [0, 0, 0, 1, 1, 2], counts=[7, 8, 9])
        assert evidence.counts.tolist() == [7, 8, 9]
        assert not evidence.counts_from_labels

    @pytest.mark.parametrize(
        ("counts", "message"),
        [
            ([1, 2], r"shape \(3,\), one per class, got \(2,\)"),
            ([1, 0, 2], "must be positive; wrong for class 1 "),
            ([1, -5, np.nan], "wrong for classes 1, 2 "),
            ([1, 2, np.inf], "wrong for class 2 "),
        ],
    )
    def test_wrong_counts(self, counts: list[float], message: str) -> None:
        with pytest.raises(EnergyAlignError, match=message):
            check_counts(counts, 3)
        with pytest.raises(EnergyAlignError, match=message):
            Evidence.from_arrays(LOGITS, counts=counts)


class TestLabels:
    @pytest.mark.parametrize("make", [np.asarray, torch.tensor, list, array_api_strict.asarray])
    def test_integers_of_any_kind(self, make: Any) -> None:
        assert check_labels(make([2, 0, 1]), 3, 3).tolist() == [2, 0, 1]
        assert check_labels(np.array([2, 0, 1], dtype=np.uint8), 3, 3).dtype == np.int64

    @pytest.mark.parametrize(
        ("labels", "message"),
        [
            ([0, 1], r"labels must have shape \(3,\), one per row of logits, got \(2,\)"),
            ([[0, 1, 2]], r"got \(1, 3\)"),
            ([0, 3, 1], r"label 3 of sample 1 is out of range: expected 0\.\.2"),
            ([0, 1, -1], "label -1 of sample 2 is out of range"),
            ([0.0, 1.0, 2.0], r"class numbers \(integers\), .*got float64"),
            ([True, False, True], "got bool"),
            (["a", "b", "c"], "class numbers"),
        ],
    )
    def test_wrong_labels(self, labels: Any, message: str) -> None:
        with pytest.raises(EnergyAlignError, match=message):
            check_labels(labels, 3, 3)


class TestSubset:
    def test_only_the_samples_that_are_kept(self) -> None:
        keep = np.array([True, False, True, True, False, True])
        evidence = Evidence.from_arrays(LOGITS, [0, 0, 0, 1, 1, 2]).subset(keep)
        found = all_of(evidence, rows=2)
        np.testing.assert_array_equal(found["logits"], LOGITS[keep])
        assert found["labels"].tolist() == [0, 0, 1, 2]
        assert found["samples"].tolist() == [0, 2, 3, 5]
        # Balanced again: 4 samples over 3 classes.
        assert found["weights"] == pytest.approx([2 / 3, 2 / 3, 4 / 3, 4 / 3])

    def test_a_subset_of_a_subset(self) -> None:
        evidence = Evidence.from_arrays(LOGITS).subset(np.arange(6) > 1).subset(np.arange(6) < 4)
        assert [int(s) for block in evidence.blocks() for s in block.samples] == [2, 3]

    def test_the_whole_is_not_changed(self) -> None:
        whole = Evidence.from_arrays(LOGITS)
        before = whole.free_energy.values.copy()
        part = whole.subset(np.arange(6) < 2)
        np.testing.assert_allclose(part.free_energy.values, logsumexp(LOGITS[:2], axis=0), rtol=1e-14)
        np.testing.assert_array_equal(whole.free_energy.values, before)

    @pytest.mark.parametrize("make", [torch.tensor, array_api_strict.asarray])
    def test_of_other_namespaces(self, make: Any) -> None:
        part = Evidence.from_arrays(make(LOGITS)).subset(np.arange(6) % 2 == 0)
        np.testing.assert_allclose(part.free_energy.values, logsumexp(LOGITS[::2], axis=0), rtol=1e-13)

    def test_unlabelled_forgets_all_but_the_logits(self) -> None:
        bare = Evidence.from_arrays(
            LOGITS, [0, 0, 0, 1, 1, 2], counts=[3, 2, 1], groups=[0, 0, 1, 1, 2, 2]
        ).unlabelled()
        assert (bare.labels, bare.counts, bare.groups) == (None, None, None)
        np.testing.assert_allclose(bare.free_energy.values, logsumexp(LOGITS, axis=0), rtol=1e-14)


class TestBlocks:
    def test_have_so_many_samples_that_count(self) -> None:
        logits = np.arange(3000.0).reshape(1000, 3)
        keep = np.arange(1000) % 7 == 3
        evidence = Evidence.from_arrays(logits, np.arange(1000) % 3, repeats=np.arange(1.0, 1001.0)).subset(keep)
        blocks = list(evidence.blocks(50))
        assert [len(block.logits) for block in blocks] == [50, 50, 43]
        np.testing.assert_array_equal(np.concatenate([block.samples for block in blocks]), np.flatnonzero(keep))
        for block in blocks:
            np.testing.assert_array_equal(block.logits, logits[block.samples])
            np.testing.assert_array_equal(block.labels, block.samples % 3)
            np.testing.assert_array_equal(block.repeats, block.samples + 1.0)

    def test_of_neighbours_are_not_copied(self) -> None:
        logits = np.zeros((100, 3))
        for keep in (np.ones(100, dtype=bool), np.arange(100) >= 40):
            blocks = list(Evidence.from_arrays(logits).subset(keep).blocks(30))
            assert sum(len(block.logits) for block in blocks) == keep.sum()
            assert all(np.shares_memory(block.logits, logits) for block in blocks)


class TestGroups:
    def test_any_names_will_do(self) -> None:
        evidence = Evidence.from_arrays(LOGITS, groups=["b", "a", "b", "c", "a", "a"])
        assert evidence.groups.tolist() == [1, 0, 1, 2, 0, 0]

    def test_one_per_sample(self) -> None:
        with pytest.raises(EnergyAlignError, match=r"groups must have shape \(6,\), one per sample, got \(2,\)"):
            Evidence.from_arrays(LOGITS, groups=[0, 1])


class TestSources:
    def test_blocks_are_read_as_one_table(self) -> None:
        evidence = Evidence.from_blocks(lambda: (LOGITS[:1], LOGITS[1:5], LOGITS[5:]), 6, 3, [0, 0, 0, 1, 1, 2])
        whole = Evidence.from_arrays(LOGITS, [0, 0, 0, 1, 1, 2])
        for name, values in all_of(evidence, rows=2).items():
            np.testing.assert_array_equal(values, all_of(whole)[name])
        for name in ("lse", "marginal"):
            results = [make_estimator(name).estimate(e, Clusters.per_class(3)).shifts for e in (evidence, whole)]
            np.testing.assert_allclose(*results, atol=1e-9)

    @pytest.mark.parametrize("lengths", [(5,), (7,), (6, 1), (3, 9), (0,)])
    def test_a_source_of_another_length_than_announced(self, lengths: tuple[int, ...]) -> None:
        evidence = Evidence.from_blocks(lambda: (np.zeros((n, 3)) for n in lengths), 6, 3)
        with pytest.raises(EnergyAlignError, match=r"expected 6 samples of evidence.*the same blocks every time"):
            list(evidence.blocks())

    def test_a_source_that_runs_dry(self) -> None:
        def blocks() -> Iterator[np.ndarray]:
            yield from next(readings)

        readings = iter([[LOGITS], [LOGITS], []])  # a look at the first rows, the energies, and nothing else
        evidence = Evidence.from_blocks(blocks, 6, 3)
        assert evidence.free_energy.n_samples == 6
        with pytest.raises(EnergyAlignError, match="the same blocks every time it is read"):
            fit_shifts(evidence, estimator="marginal", clusters="per-class")

    def test_a_block_of_another_number_of_classes(self) -> None:
        evidence = Evidence.from_blocks(lambda: (LOGITS[:3], np.zeros((3, 4))), 6, 3)
        with pytest.raises(EnergyAlignError, match="has 4 class columns, but 3 were expected"):
            list(evidence.blocks())

    @pytest.mark.parametrize("drop", [0, 100])
    def test_a_bad_value_is_named_by_its_place_in_the_whole(self, drop: int) -> None:
        logits = np.zeros((9000, 3))
        logits[8765, 1] = np.inf
        evidence = Evidence.from_blocks(lambda: (logits[:5000], logits[5000:]), 9000, 3)
        if drop:
            evidence = evidence.subset(np.arange(9000) >= drop)
        with pytest.raises(EnergyAlignError, match=r"\+inf at sample 8765, class 1"):
            _ = evidence.free_energy

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"kind": "validation"}, "unknown kind of evidence 'validation': choose training, out-of-fold, held-out"),
            ({"class_names": ["a", "b"]}, "class_names must have 3 entries, one per class, got 2"),
            ({"repeats": [1, 2]}, r"repeats must have shape \(6,\)"),
            ({"repeats": [1, 1, 1, 1, 1, -1]}, "repeats must be finite and >= 0"),
        ],
    )
    def test_wrong_options(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(EnergyAlignError, match=message):
            Evidence.from_arrays(LOGITS, **options)

    def test_nothing_at_all(self) -> None:
        with pytest.raises(EnergyAlignError, match="the evidence is empty"):
            Evidence.from_arrays(np.zeros((0, 3)))


class TestMaskedAndUnseen:
    def test_which_classes_can_be_estimated(self) -> None:
        logits = LOGITS.copy()
        logits[:, 1] = -np.inf
        evidence = Evidence.from_arrays(np.column_stack([logits, LOGITS[:, :1]]), [0, 0, 0, 0, 3, 3])
        assert evidence.masked.tolist() == [False, True, False, False]
        assert evidence.unseen.tolist() == [False, False, True, False]
        assert evidence.usable.tolist() == [True, False, False, True]

    @pytest.mark.parametrize("in_play", [0, 63, 64, 299])
    def test_one_sample_anywhere_brings_a_class_into_play(self, in_play: int) -> None:
        logits = np.zeros((300, 3))
        logits[:, 1] = -np.inf
        assert Evidence.from_arrays(logits).masked.tolist() == [False, True, False]
        logits[in_play, 1] = -5.0
        evidence = Evidence.from_arrays(logits)
        assert not evidence.masked.any()
        assert evidence.subset(np.arange(300) != in_play).masked.tolist() == [False, True, False]

    def test_names_are_numbers_unless_given(self) -> None:
        assert Evidence.from_arrays(LOGITS).names_of([2, 0]) == ["2", "0"]
        assert Evidence.from_arrays(LOGITS, class_names=["a", "b", "c"]).names_of([2, 0]) == ["c", "a"]


class TestLogProbabilities:
    @pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
    def test_are_recognised(self, dtype: str) -> None:
        assert Evidence.from_arrays(log_softmax(LOGITS, axis=1).astype(dtype)).holds_log_probabilities

    def test_zero_probabilities_are_recognised_too(self) -> None:
        with np.errstate(divide="ignore"):
            assert Evidence.from_arrays(np.log([[1.0, 0.0], [0.3, 0.7]])).holds_log_probabilities

    def test_probabilities_are_read_as_log_probabilities(self) -> None:
        probabilities = np.exp(log_softmax(LOGITS, axis=1))
        evidence = Evidence.from_arrays(probabilities)
        assert evidence.holds_probabilities
        assert evidence.holds_log_probabilities
        for given in (evidence, evidence.subset(np.arange(6) < 3)):
            (block,) = given.blocks()
            np.testing.assert_allclose(block.logits, np.log(probabilities)[: len(block.logits)], rtol=1e-12)

    def test_logits_are_not(self) -> None:
        assert not Evidence.from_arrays(LOGITS).holds_log_probabilities
        one_row_off = log_softmax(LOGITS, axis=1)
        one_row_off[3] += 0.1
        assert not Evidence.from_arrays(one_row_off).holds_log_probabilities

    def test_large_logits_are_looked_at_without_a_warning(self) -> None:
        assert not Evidence.from_arrays(LOGITS * 1e4).holds_log_probabilities


class TestFromFreeEnergy:
    def test_lse_and_prior_are_those_of_the_logits(self) -> None:
        stream = FreeEnergy().update(LOGITS[:2]).update(LOGITS[2:])
        left = Evidence.from_free_energy(stream, counts=[9, 4, 1])
        whole = Evidence.from_arrays(LOGITS, counts=[9, 4, 1])
        for name in ("lse", "prior", "none"):
            for sharing in (Clusters.per_class(3, [9, 4, 1]), Clusters((0, 1, 1)), "monotone"):
                mine, theirs = (make_estimator(name).estimate(e, sharing) for e in (left, whole))
                np.testing.assert_allclose(mine.shifts, theirs.shifts, atol=1e-13)
                np.testing.assert_allclose(mine.standard_errors, theirs.standard_errors, atol=1e-8)

    def test_what_is_known_of_it_is_kept(self) -> None:
        left = Evidence.from_free_energy(
            FreeEnergy().update(LOGITS), kind="held-out", class_names=["a", "b", "c"], counts=[3, 2, 1]
        )
        shifts = fit_shifts(left, estimator="prior", clusters="per-class")
        assert (shifts.evidence_kind, shifts.class_names, shifts.n_samples) == ("held-out", ("a", "b", "c"), 6)

    def test_what_needs_the_logits_says_so(self) -> None:
        left = Evidence.from_free_energy(FreeEnergy().update(LOGITS))
        with pytest.raises(EnergyAlignError, match=r"has only energies: use estimator 'lse' or 'prior'"):
            fit_shifts(left, estimator="marginal", clusters="per-class")

    def test_nothing_accumulated(self) -> None:
        with pytest.raises(EnergyAlignError, match="the evidence is empty"):
            Evidence.from_free_energy(FreeEnergy(3))


def test_a_sample_that_is_balanced_up_to_chance_says_nothing_of_the_training_counts() -> None:
    logits, labels = np.zeros((300, 3)), np.arange(300) % 3
    assert Evidence.from_arrays(logits[:299], labels[:299]).counts is None
    rare = np.concatenate([labels[labels < 2], labels[labels == 2][:40]])
    assert Evidence.from_arrays(logits[: len(rare)], rare).counts.tolist() == [100, 100, 40]
