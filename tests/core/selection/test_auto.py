"""`auto`: what is compared, what is chosen on which kind of evidence, and what is kept of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax

from energyalign.core.clusters import Clusters
from energyalign.core.errors import EnergyAlignError, UntrustedEstimateWarning
from energyalign.core.estimators import Energies, make_estimator
from energyalign.core.estimators.marginal import Marginal
from energyalign.core.evidence import Evidence
from energyalign.core.fitting import fit_shifts
from energyalign.core.free_energy import FreeEnergy
from energyalign.core.selection import auto as selection_module
from energyalign.core.selection.auto import CLOSE, _thin, options_for
from energyalign.core.selection.record import Candidate
from energyalign.core.sharing import make_sharing
from energyalign.core.shifts import Shifts

COUNTS = [1000.0, 300, 100, 30, 10]


def accuracy(shifts: Shifts | None, logits: np.ndarray, labels: np.ndarray) -> float:
    predicted = np.argmax(logits, axis=1) if shifts is None else shifts.predict(logits)
    return float(np.mean(predicted == labels))


def chosen(shifts: Shifts) -> Candidate:
    return shifts.selection.candidates[shifts.selection.chosen]


def memorised(rng: np.random.Generator, bias: Any) -> tuple[np.ndarray, np.ndarray]:
    """Training samples that the model is right about, every one."""
    labels = np.repeat(np.arange(5), 20)
    return 15 * np.eye(5)[labels] + rng.normal(size=(100, 5)) + np.asarray(bias), labels


class TestWhatIsCompared:
    @staticmethod
    def rows(evidence: Evidence, estimator: str = "auto", clusters: Any = "auto") -> list[tuple[str, str]]:
        options = options_for(evidence, estimator, clusters, 1.0)
        return [(e.name, s if isinstance(s, str) else s.name) for e, s in options]

    def test_in_order_of_preference(self) -> None:
        evidence = Evidence.from_arrays(np.random.default_rng(0).normal(size=(9, 3)), counts=[9, 4, 1])
        assert self.rows(evidence) == [
            ("marginal", "monotone"),
            ("marginal", "per-class"),
            ("lse", "monotone"),
            ("lse", "per-class"),
            ("lse", "jenks-2"),
            ("prior", "per-class"),
            ("none", "per-class"),
        ]

    def test_log_probabilities_leave_lse_out(self) -> None:
        scores = log_softmax(np.random.default_rng(0).normal(size=(9, 3)), axis=1)
        assert {name for name, _ in self.rows(Evidence.from_arrays(scores, counts=[9, 4, 1]))} == {
            "marginal", "prior", "none",
        }  # fmt: skip

    def test_without_counts_nothing_that_needs_them(self) -> None:
        evidence = Evidence.from_arrays(np.random.default_rng(0).normal(size=(9, 3)))
        assert self.rows(evidence) == [("marginal", "per-class"), ("lse", "per-class"), ("none", "per-class")]

    def test_one_estimator_with_every_sharing(self) -> None:
        evidence = Evidence.from_arrays(np.random.default_rng(0).normal(size=(9, 3)), counts=[9, 4, 1])
        assert self.rows(evidence, "marginal") == [
            ("marginal", "monotone"), ("marginal", "per-class"), ("marginal", "jenks-2"),
        ]  # fmt: skip

    def test_one_sharing_with_every_estimator(self) -> None:
        evidence = Evidence.from_arrays(np.random.default_rng(0).normal(size=(9, 3)), counts=[9, 4, 1])
        assert self.rows(evidence, clusters=2) == [(name, "jenks-2") for name in ("marginal", "lse", "prior", "none")]

    def test_a_full_choice_leaves_nothing_to_compare(self) -> None:
        evidence = Evidence.from_arrays(np.random.default_rng(0).normal(size=(9, 3)), counts=[9, 4, 1])
        assert self.rows(evidence, "lse", "monotone") == [("lse", "monotone")]
        assert fit_shifts(evidence, estimator="lse", clusters="monotone").selection is None


class TestHeldOutEvidence:
    @pytest.mark.parametrize("seed", range(3))
    @pytest.mark.parametrize("kind", ["held-out", "out-of-fold"])
    def test_a_biased_model_is_corrected(self, simulate: Callable[..., Any], seed: int, kind: Any) -> None:
        logits, labels = simulate(COUNTS, 60, seed=seed, separation=2.5)
        fresh = simulate(COUNTS, 1000, seed=100 + seed, separation=2.5)
        shifts = fit_shifts(Evidence.from_arrays(logits, labels, counts=COUNTS, kind=kind))
        best = accuracy(None, fresh[0] - np.log(COUNTS), fresh[1])  # the true correction
        assert accuracy(None, *fresh) < best - 0.08
        assert accuracy(shifts, *fresh) > best - 0.015

    @pytest.mark.parametrize("seed", range(3))
    def test_an_unbiased_model_is_not_harmed(self, simulate: Callable[..., Any], seed: int) -> None:
        # Trained on imbalanced data by a balanced loss: the counts say "biased", the evidence says "not".
        logits, labels = simulate(np.ones(5), 60, seed=seed, separation=2.5)
        fresh = simulate(np.ones(5), 1000, seed=100 + seed, separation=2.5)
        shifts = fit_shifts(Evidence.from_arrays(logits, labels, counts=COUNTS, kind="held-out"))
        assert accuracy(shifts, *fresh) > accuracy(None, *fresh) - 0.01
        assert chosen(shifts).estimator != "prior"

    def test_the_first_that_is_not_clearly_behind_is_taken(self, simulate: Callable[..., Any]) -> None:
        for seed in range(4):
            logits, labels = simulate(COUNTS, 25, seed=seed, separation=2.0)
            shifts = fit_shifts(Evidence.from_arrays(logits, labels, counts=COUNTS, kind="held-out"))
            record = shifts.selection
            assert all(c.behind > CLOSE for c in record.candidates[: record.chosen])
            assert chosen(shifts).behind <= CLOSE
            assert min(c.behind for c in record.candidates) == 0
            best = max(c.score for c in record.candidates)
            assert f"{chosen(shifts).score:.4f}" in record.reason
            assert chosen(shifts).score == best or f"of the best ({best:.4f})" in record.reason

    def test_a_preferred_way_of_sharing_that_is_wrong_is_passed_over(self, simulate: Callable[..., Any]) -> None:
        # A bias against all expectation: the rarest class is favoured, which monotone energies cannot say.
        bias = np.array([0.0, 0, 0, 0, 4])
        logits, labels = simulate(np.ones(5), 100, seed=5, separation=2.5)
        shifts = fit_shifts(Evidence.from_arrays(logits + bias, labels, counts=COUNTS, kind="held-out"))
        first, second = shifts.selection.candidates[:2]
        assert (first.sharing, second.sharing) == ("monotone", "per-class")
        assert first.behind > CLOSE >= second.behind
        assert shifts.selection.chosen == 1
        np.testing.assert_allclose(shifts.values - shifts.values.mean(), -(bias - bias.mean()), atol=0.5)

    def test_an_estimator_that_ruins_the_model_is_passed_over(self, simulate: Callable[..., Any]) -> None:
        # One sample carries an energy: `lse` is far off, and with `lse` asked for, sharing cannot mend that.
        logits, labels = simulate(COUNTS, 60, seed=7, separation=2.5)
        logits[0] = logits[0] + 40 * np.eye(5)[2]
        evidence = Evidence.from_arrays(logits, labels, counts=COUNTS, kind="held-out")
        shifts = fit_shifts(evidence)
        assert chosen(shifts).estimator == "marginal"
        by_name = {(c.estimator, c.sharing): c for c in shifts.selection.candidates}
        assert by_name["lse", "per-class"].behind > CLOSE
        assert by_name["lse", "per-class"].smallest_effective_samples < 2

    def test_another_target_is_scored_as_such(self, simulate: Callable[..., Any]) -> None:
        # For a target like the training data the raw model is right, and correcting without the target is not.
        logits, labels = simulate(COUNTS, 200, seed=8, separation=2.0)
        target = np.array(COUNTS) / np.sum(COUNTS)
        evidence = Evidence.from_arrays(logits, labels, counts=COUNTS, kind="held-out")
        shifts = fit_shifts(evidence, target_prior=target)
        raw_accuracy = [np.mean(np.argmax(logits[labels == k], axis=1) == k) for k in range(5)]
        assert chosen(shifts).score == pytest.approx(target @ raw_accuracy, abs=0.02)


class TestTrainingEvidence:
    def test_memorised_samples_do_not_vote_for_no_correction(self, simulate: Callable[..., Any]) -> None:
        logits, labels = memorised(np.random.default_rng(0), np.log(COUNTS))
        fresh = simulate(COUNTS, 1000, seed=1, separation=2.5)
        shifts = fit_shifts(Evidence.from_arrays(logits, labels, counts=COUNTS, kind="training"))
        raw = shifts.selection.candidates[-1]
        assert (raw.estimator, raw.score) == ("none", 1.0)  # accuracy would be content with it
        assert all(c.score <= raw.score for c in shifts.selection.candidates)
        assert chosen(shifts).estimator != "none"
        assert "accuracy on training data flatters" in shifts.selection.reason
        assert accuracy(shifts, *fresh) > accuracy(None, *fresh) + 0.08

    def test_where_they_hide_the_bias_the_counts_are_trusted(self) -> None:
        logits, labels = memorised(np.random.default_rng(0), np.zeros(5))
        with pytest.warns(UntrustedEstimateWarning, match="auto had little to go by"):
            shifts = fit_shifts(Evidence.from_arrays(logits, labels, counts=COUNTS, kind="training"))
        assert chosen(shifts).estimator == "prior"
        np.testing.assert_allclose(shifts.values, np.log(COUNTS[-1]) - np.log(COUNTS), atol=1e-12)
        slopes = [c.slope for c in shifts.selection.candidates if c.estimator in ("lse", "marginal")]
        assert all(abs(slope) < 0.3 for slope in slopes)  # of the energies on log counts: theory says 1

    def test_a_model_that_was_balanced_in_training_is_not_given_its_counts(self) -> None:
        """It is right about nearly every sample, by margins that the counts would take away."""
        rng = np.random.default_rng(0)
        labels = np.repeat(np.arange(5), 40)
        logits = 4 * np.eye(5)[labels] + rng.normal(size=(200, 5))
        shifts = fit_shifts(Evidence.from_arrays(logits, labels, counts=COUNTS, kind="training"))
        assert shifts.estimator == "marginal"
        assert "the training counts would cost even that" in shifts.selection.reason
        assert not shifts.selection.doubtful
        assert np.ptp(shifts.values) < 1.0
        scores = {c.estimator: c.score for c in shifts.selection.candidates}
        assert scores["none"] > 0.9
        assert scores["prior"] < scores["none"] - 0.05

    def test_training_samples_that_are_not_memorised_are_measured(self, simulate: Callable[..., Any]) -> None:
        logits, labels = simulate(COUNTS, 200, seed=2, separation=1.0)
        shifts = fit_shifts(Evidence.from_arrays(logits, labels, counts=COUNTS, kind="training"))
        assert chosen(shifts).estimator == "marginal"
        assert chosen(shifts).slope == pytest.approx(1, abs=0.15)

    def test_evidence_is_training_data_unless_said_otherwise(self) -> None:
        assert Evidence.from_arrays(np.zeros((2, 2))).kind == "training"

    def test_the_estimator_asked_for_is_kept_and_its_weakness_said(self) -> None:
        logits = np.random.default_rng(3).normal(size=(60, 5)) * 40  # one sample carries an energy
        with pytest.warns(UntrustedEstimateWarning, match="fewer than 5 effective samples"):
            shifts = fit_shifts(Evidence.from_arrays(logits, counts=COUNTS), estimator="lse")
        assert len(shifts.selection.candidates) > 2
        assert "the preferred way of sharing was taken" in shifts.selection.reason


class TestUnlabelledEvidence:
    @pytest.mark.parametrize("kind", ["held-out", "training"])
    def test_is_chosen_by_diagnostics(self, simulate: Callable[..., Any], kind: Any) -> None:
        logits, _ = simulate(COUNTS, 200, seed=4, separation=1.0)
        shifts = fit_shifts(Evidence.from_arrays(logits, counts=COUNTS, kind=kind))
        assert all(c.score is None and c.behind is None for c in shifts.selection.candidates)
        assert shifts.selection.reason.startswith("without labels nothing can be scored")
        assert chosen(shifts).estimator == "marginal"

    def test_energies_alone_will_do(self, simulate: Callable[..., Any]) -> None:
        logits, _ = simulate(COUNTS, 200, seed=5, separation=1.0)
        shifts = fit_shifts(Evidence.from_free_energy(FreeEnergy().update(logits), counts=COUNTS))
        assert chosen(shifts).estimator == "lse"
        for candidate in shifts.selection.candidates:
            assert (candidate.problem is not None) == (candidate.estimator == "marginal")

    def test_energies_of_more_samples_than_memory_has_room_for(self) -> None:
        energy = FreeEnergy().update(np.random.default_rng(0).normal(size=(50, 2)) * 0.3, repeats=np.full(50, 1e14))
        evidence = Evidence.from_free_energy(energy, counts=[2, 1], kind="held-out")
        assert fit_shifts(evidence).n_samples == 5e15


class TestRecord:
    def test_every_candidate_is_kept_and_survives_the_file(self, simulate: Callable[..., Any], tmp_path: Path) -> None:
        logits, labels = simulate(COUNTS, 30, seed=6)
        evidence = Evidence.from_arrays(logits, labels, counts=COUNTS, kind="held-out")
        shifts = fit_shifts(evidence)
        options = options_for(evidence, "auto", "auto", 1.0)
        assert [c.estimator for c in shifts.selection.candidates] == [e.name for e, _ in options]
        assert all(c.score is not None and c.problem is None for c in shifts.selection.candidates)
        shifts.save(tmp_path / "shifts.json")
        assert Shifts.load(tmp_path / "shifts.json").selection == shifts.selection

    def test_the_result_is_the_chosen_estimate(self, simulate: Callable[..., Any]) -> None:
        logits, labels = simulate(COUNTS, 30, seed=6)
        evidence = Evidence.from_arrays(logits, labels, counts=COUNTS, kind="held-out")
        shifts = fit_shifts(evidence)
        pick = chosen(shifts)
        again = fit_shifts(evidence, estimator=pick.estimator, clusters=pick.sharing.removeprefix("jenks-"))
        np.testing.assert_allclose(shifts.values, again.values, atol=1e-9)
        np.testing.assert_allclose(shifts.standard_errors, again.standard_errors, atol=1e-9)
        assert pick.largest_error == pytest.approx(shifts.standard_errors.max())

    def test_candidates_that_fail_are_kept_with_their_reason(self, simulate: Callable[..., Any]) -> None:
        logits, labels = simulate(COUNTS, [30, 30, 30, 30, 0], seed=9)
        evidence = Evidence.from_arrays(logits, labels, counts=COUNTS, kind="held-out")
        with pytest.warns(UntrustedEstimateWarning, match="class 4 has no labelled evidence"):
            shifts = fit_shifts(evidence)
        by_name = {(c.estimator, c.sharing): c for c in shifts.selection.candidates}
        for estimator in ("lse", "marginal"):
            assert "no evidence for class 4" in by_name[estimator, "per-class"].problem
            assert by_name[estimator, "per-class"].score is None
        assert by_name["marginal", "monotone"].problem is None
        assert chosen(shifts).problem is None

    def test_if_all_fail_the_first_reason_is_given(self) -> None:
        logits = np.zeros((6, 3))
        logits[2] = -np.inf
        evidence = Evidence.from_arrays(logits, [0, 0, 1, 1, 0, 1], counts=[3, 2, 1])
        with pytest.raises(EnergyAlignError, match=r"no estimator can use this .*The first said: .*-inf for"):
            fit_shifts(evidence, estimator="marginal")

    def test_slope_and_errors_are_measured(self) -> None:
        rng = np.random.default_rng(0)
        logits = rng.normal(size=(2000, 5)) * 0.3 + 0.8 * np.log(COUNTS)
        shifts = fit_shifts(Evidence.from_arrays(logits, counts=COUNTS, kind="held-out"))
        slopes = {(c.estimator, c.sharing): c.slope for c in shifts.selection.candidates}
        for measured in ("lse", "marginal"):
            assert slopes[measured, "per-class"] == pytest.approx(0.8, abs=0.02)
        assert slopes["prior", "per-class"] == pytest.approx(1, abs=1e-12)
        assert slopes["none", "per-class"] is None
        lse = next(c for c in shifts.selection.candidates if (c.estimator, c.sharing) == ("lse", "per-class"))
        alone = fit_shifts(Evidence.from_arrays(logits, counts=COUNTS), estimator="lse", clusters="per-class")
        assert lse.largest_error == pytest.approx(alone.standard_errors.max())
        assert lse.smallest_effective_samples == pytest.approx(alone.effective_samples.min())


class TestThinning:
    def test_large_evidence_is_compared_on_an_even_part_of_every_class(self, monkeypatch: pytest.MonkeyPatch) -> None:
        labels = np.random.default_rng(0).permutation(np.repeat(np.arange(4), [5000, 400, 30, 1]))
        evidence = Evidence.from_arrays(np.zeros((5431, 4)), labels, counts=[9, 8, 7, 6])
        assert _thin(evidence) is evidence
        monkeypatch.setattr(selection_module, "MAX_NUMBERS", 5432)  # a quarter of the 5431 x 4 numbers
        thin = _thin(evidence)
        assert thin.label_counts.tolist() == [1250, 100, 8, 1]

    def test_without_labels_every_so_many_samples(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(selection_module, "MAX_NUMBERS", 100)
        thin = _thin(Evidence.from_arrays(np.zeros((200, 2))))
        assert (np.flatnonzero(thin.keep) // 4).tolist() == list(range(50))

    def test_the_final_estimate_uses_all_of_it(
        self, simulate: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        logits, labels = simulate(COUNTS, 100, seed=10)
        evidence = Evidence.from_arrays(logits, labels, counts=COUNTS, kind="held-out")
        monkeypatch.setattr(selection_module, "MAX_NUMBERS", 500)  # a fifth
        shifts = fit_shifts(evidence)
        pick = chosen(shifts)
        sharing = make_sharing(pick.sharing.removeprefix("jenks-"), evidence)
        whole = make_estimator(pick.estimator).estimate(evidence, sharing)
        np.testing.assert_allclose(shifts.values, whole.shifts, atol=1e-9)
        thin = make_estimator(pick.estimator).estimate(_thin(evidence), sharing)
        assert pick.largest_error == pytest.approx(thin.standard_errors.max())
        assert shifts.n_samples == 500


class TestWhatCannotBeScored:
    def test_a_class_with_too_few_samples_keeps_scores_from_choosing(self) -> None:
        """Without samples of the rare class a correction would show its cost on the others and never its gain."""
        rng = np.random.default_rng(0)
        labels = np.repeat([0, 1], [100, 1])
        logits = rng.normal(size=(101, 2)) + np.eye(2)[labels] + np.log([100, 1])
        evidence = Evidence.from_arrays(logits, labels, counts=[100, 1], kind="held-out")
        shifts = fit_shifts(evidence)
        raw = next(c for c in shifts.selection.candidates if c.estimator == "none")
        assert all(c.score < raw.score for c in shifts.selection.candidates if c.estimator != "none")
        assert shifts.estimator != "none"
        assert "too few samples" in shifts.selection.reason

    def test_the_raw_model_is_never_a_silent_last_resort(self) -> None:
        labels = np.array([0, 1] * 20)
        logits = np.random.default_rng(0).normal(size=(40, 3)) + 2 * np.eye(3)[labels]
        evidence = Evidence.from_arrays(logits, labels, kind="held-out")
        with pytest.raises(EnergyAlignError, match=r"no estimator can use this evidence.*no evidence for class 2"):
            fit_shifts(evidence)

    def test_nor_where_every_diagnostic_fails(self) -> None:
        """No labels, no counts, one sample that carries a class and others that are certain: all is in doubt."""
        labels = np.arange(40) % 2
        logits = 60.0 * np.eye(2)[labels]
        logits[0, 0] += 100
        with pytest.warns(UntrustedEstimateWarning):
            shifts = fit_shifts(Evidence.from_arrays(logits, kind="held-out"))
        assert shifts.estimator != "none"
        assert any("auto had little to go by" in concern for concern in shifts.concerns)
        assert "no estimator's diagnostics hold" in shifts.selection.reason


class TestManyClasses:
    def test_thinning_leaves_every_fold_a_sample_of_every_class(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(selection_module, "MAX_NUMBERS", 1000)
        labels = np.arange(1000) % 100
        evidence = Evidence.from_arrays(np.zeros((1000, 100)), labels, kind="held-out")
        thinned = _thin(evidence)
        assert thinned.label_counts.tolist() == [5.0] * 100

    def test_the_best_number_of_jenks_clusters_is_taken_also_on_training_data(
        self, simulate: Callable[..., Any]
    ) -> None:
        logits, labels = simulate(COUNTS, 40, seed=3)
        evidence = Evidence.from_arrays(logits, labels, counts=COUNTS)
        shifts = fit_shifts(evidence, estimator="lse", clusters="jenks")
        names = [c.sharing for c in shifts.selection.candidates]
        assert names == ["jenks-2", "jenks-3", "jenks-4"]
        assert chosen(shifts).score == max(c.score for c in shifts.selection.candidates)


def test_prior_with_another_tau_is_not_doubted_for_its_slope() -> None:
    labels = np.repeat(np.arange(10), 5)
    logits = 40.0 * np.eye(10)[labels] + np.linspace(3, -3, 10)
    evidence = Evidence.from_arrays(logits, labels, counts=np.linspace(100, 10, 10))
    with pytest.warns(UntrustedEstimateWarning, match="harmful for one that was balanced in training"):
        shifts = fit_shifts(evidence, tau=0.5)
    assert shifts.estimator == "prior"


def test_a_candidate_that_fails_on_a_part_of_the_evidence_is_still_there_for_its_diagnostics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On training data scores do not choose, so that a fold too small for an estimator must not rule it out."""
    whole = Marginal.energies

    def refuse_a_part(self: Marginal, evidence: Evidence, clusters: Clusters) -> Energies:
        if evidence.keep is not None:
            raise EnergyAlignError("too little")
        return whole(self, evidence, clusters)

    monkeypatch.setattr(Marginal, "energies", refuse_a_part)
    labels = np.arange(60) % 3
    logits = np.random.default_rng(0).normal(size=(60, 3)) + np.log([9, 3, 1])
    shifts = fit_shifts(Evidence.from_arrays(logits, labels, counts=[9, 3, 1]), estimator="marginal")
    assert shifts.estimator == "marginal"
    assert all(candidate.problem == "too little" for candidate in shifts.selection.candidates)


def given_up(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A model that has given up its second rarest class: its logit is far below what its count explains."""
    labels = np.repeat(np.arange(5), 60)
    logits = 2.5 * np.eye(5)[labels] + rng.normal(size=(300, 5)) + np.log(COUNTS)
    return logits - np.array([0.0, 0.0, 0.0, 12.0, 0.0]), labels


def test_monotone_sharing_gives_way_where_the_counts_do_not_explain_the_bias() -> None:
    logits, labels = given_up(np.random.default_rng(0))
    fresh, truth = given_up(np.random.default_rng(1))
    evidence = Evidence.from_arrays(logits, labels, counts=COUNTS)
    found = fit_shifts(evidence)
    assert (found.estimator, found.clusters.name) == ("marginal", "per-class")
    with pytest.warns(UntrustedEstimateWarning, match=r"monotone sharing moves the shift of class 3.* by up to \d"):
        shared = fit_shifts(evidence, estimator="marginal", clusters="monotone")
    assert accuracy(found, fresh, truth) > accuracy(shared, fresh, truth) + 0.1
    strains = {c.sharing: c.strain for c in found.selection.candidates if c.estimator == "marginal"}
    assert strains["monotone"] > 3.0
    assert strains["per-class"] is None


def test_strain_that_noise_explains_is_none() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(5), 60)
    logits = 2.5 * np.eye(5)[labels] + rng.normal(size=(300, 5))  # no bias at all: pooled everywhere
    result = make_estimator("marginal").estimate(Evidence.from_arrays(logits, labels, counts=COUNTS), "monotone")
    np.testing.assert_array_equal(result.strain, 0.0)
