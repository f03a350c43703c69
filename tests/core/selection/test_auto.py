"""`auto`: which estimator and strength it chooses, when it keeps the raw model, and what it records."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from energyalign.core._engine.parts import Rows
from energyalign.core._engine.threads import Threads
from energyalign.core._io.shifts_json import dump
from energyalign.core.clusters import Clusters
from energyalign.core.errors import BadValueError, CannotGoOn, EnergyAlignError, UntrustedEstimateWarning
from energyalign.core.estimators import Energies, make_estimator
from energyalign.core.estimators.lse import Lse
from energyalign.core.estimators.marginal import Marginal
from energyalign.core.estimators.shrunk import Shrunk
from energyalign.core.estimators.shrunk.estimator import fit_posterior
from energyalign.core.evidence import Evidence
from energyalign.core.fitting import fit_shifts
from energyalign.core.free_energy import FreeEnergy
from energyalign.core.selection import auto as selection_module
from energyalign.core.selection import samples as samples_module
from energyalign.core.selection.auto import IN_ORDER, _thin
from energyalign.core.selection.record import Candidate
from energyalign.core.selection.scoring import compare_on_itself
from energyalign.core.sharing import share_per_class
from energyalign.core.shifts import Shifts

COUNTS = [1000.0, 300, 100, 30, 10]
UNIFORM = np.full(5, 0.2)


def accuracy(shifts: Shifts | None, logits: np.ndarray, labels: np.ndarray) -> float:
    predicted = np.argmax(logits, axis=1) if shifts is None else shifts.predict(logits)
    return float(np.mean(predicted == labels))


def chosen(shifts: Shifts) -> Candidate:
    return shifts.selection.candidates[shifts.selection.chosen]


def memorised(rng: np.random.Generator, bias: Any) -> tuple[np.ndarray, np.ndarray]:
    """Draw training samples that the model always classifies correctly."""
    labels = np.repeat(np.arange(5), 20)
    return 15 * np.eye(5)[labels] + rng.normal(size=(100, 5)) + np.asarray(bias), labels


def given_up(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw logits of a network that never predicts its second rarest class, with 40 samples of each class."""
    labels = np.repeat(np.arange(5), 40)
    bias = np.array([0, -0.5, -1, -15, -2])
    return 3 * np.eye(5)[labels] + np.random.default_rng(seed).normal(size=(200, 5)) + bias, labels


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
    @pytest.mark.filterwarnings("ignore:the evidence does not show that aligning helps")
    def test_an_unbiased_model_is_not_harmed(self, simulate: Callable[..., Any], seed: int) -> None:
        # Trained on imbalanced data with a balanced loss: the counts suggest a bias, the evidence shows none.
        logits, labels = simulate(np.ones(5), 60, seed=seed, separation=2.5)
        fresh = simulate(np.ones(5), 1000, seed=100 + seed, separation=2.5)
        shifts = fit_shifts(Evidence.from_arrays(logits, labels, counts=COUNTS, kind="held-out"))
        assert accuracy(shifts, *fresh) > accuracy(None, *fresh) - 0.01
        assert chosen(shifts).estimator != "prior"

    def test_a_bias_against_all_expectation_is_found(self, simulate: Callable[..., Any]) -> None:
        bias = np.array([0.0, 0, 0, 0, 4])  # the rarest class is favoured, which monotone sharing cannot express
        logits, labels = simulate(np.ones(5), 100, seed=5, separation=2.5)
        fresh, truth = simulate(np.ones(5), 1000, seed=6, separation=2.5)
        evidence = Evidence.from_arrays(logits + bias, labels, counts=COUNTS, kind="held-out")
        shifts = fit_shifts(evidence)
        assert accuracy(shifts, fresh + bias, truth) > accuracy(None, fresh, truth) - 0.02
        assert accuracy(None, fresh + bias, truth) < accuracy(None, fresh, truth) - 0.1

    def test_one_sample_that_carries_an_energy_does_no_harm(self, simulate: Callable[..., Any]) -> None:
        logits, labels = simulate(COUNTS, 60, seed=7, separation=2.5)
        fresh = simulate(COUNTS, 1000, seed=107, separation=2.5)
        expected = fit_shifts(Evidence.from_arrays(logits, labels, counts=COUNTS, kind="held-out"))
        logits[0] = logits[0] + 40 * np.eye(5)[2]
        shifts = fit_shifts(Evidence.from_arrays(logits, labels, counts=COUNTS, kind="held-out"))
        assert accuracy(shifts, *fresh) == pytest.approx(accuracy(expected, *fresh), abs=0.015)

    def test_another_target_is_scored_as_such(self, simulate: Callable[..., Any]) -> None:
        # For a target like the training data the raw model is right, and a correction without the target is wrong.
        logits, labels = simulate(COUNTS, 200, seed=8, separation=2.0)
        target = np.array(COUNTS) / np.sum(COUNTS)
        evidence = Evidence.from_arrays(logits, labels, counts=COUNTS, kind="held-out")
        shifts = fit_shifts(evidence, target_prior=target)
        raw_accuracy = [np.mean(np.argmax(logits[labels == k], axis=1) == k) for k in range(5)]
        assert chosen(shifts).score == pytest.approx(target @ raw_accuracy, abs=0.02)

    def test_without_counts_the_labels_alone_are_followed(self, simulate: Callable[..., Any]) -> None:
        logits, labels = simulate(COUNTS, 100, seed=9, separation=2.5)
        fresh = simulate(COUNTS, 1000, seed=109, separation=2.5)
        evidence = Evidence.from_arrays(logits, labels, kind="held-out")
        assert evidence.counts is None
        shifts = fit_shifts(evidence)
        assert shifts.estimator == "shrunk"
        assert accuracy(shifts, *fresh) > accuracy(None, fresh[0] - np.log(COUNTS), fresh[1]) - 0.02


class TestStrength:
    def test_is_near_1_where_the_model_of_the_likelihood_holds(self, simulate: Callable[..., Any]) -> None:
        counts = np.geomspace(300, 10, 5)
        logits, labels = simulate(counts, 1000, seed=10, separation=1.0)
        shifts = fit_shifts(Evidence.from_arrays(logits, labels, counts=counts, kind="held-out"))
        assert shifts.strength == pytest.approx(1, abs=0.1)
        np.testing.assert_allclose(shifts.values, np.log(counts[-1] / counts), atol=0.4)

    def test_the_shifts_are_the_estimate_times_it(self, simulate: Callable[..., Any]) -> None:
        logits, labels = simulate(COUNTS, 30, seed=11)
        evidence = Evidence.from_arrays(logits, labels, counts=COUNTS, kind="held-out")
        shifts = fit_shifts(evidence)
        whole = Shrunk().estimate(evidence, share_per_class(evidence))
        assert 0.5 <= shifts.strength <= 1.25
        np.testing.assert_allclose(shifts.values, shifts.strength * whole.shifts, atol=1e-12)
        np.testing.assert_allclose(shifts.standard_errors, shifts.strength * whole.standard_errors, atol=1e-12)

    def test_is_1_for_an_estimator_asked_for(self, simulate: Callable[..., Any]) -> None:
        logits, labels = simulate(COUNTS, 30, seed=11)
        evidence = Evidence.from_arrays(logits, labels, counts=COUNTS, kind="held-out")
        for estimator in ("shrunk", "marginal", "lse", "prior"):
            assert _quietly(evidence, estimator=estimator).strength == 1

    def test_logits_of_a_diverged_model(self, simulate: Callable[..., Any]) -> None:
        """Boosted trees may have logits of 100,000, for which the likelihood is unreliable."""
        for seed in range(3):
            draws = simulate(COUNTS, 40, seed=seed), simulate(COUNTS, 1000, seed=100 + seed)
            spiked = []
            for logits, labels in draws:
                noise = np.random.default_rng(seed + len(labels)).standard_cauchy(size=logits.shape)
                spiked.append((1e4 * logits + 1e4 * noise, labels))
            (logits, labels), fresh = spiked
            assert np.abs(logits).max() > 1e5
            shifts = _quietly(Evidence.from_arrays(logits, labels, counts=COUNTS, kind="held-out"))
            assert np.all(np.isfinite(shifts.values))
            assert accuracy(shifts, *fresh) > accuracy(None, *fresh) - 0.01


def _quietly(evidence: Evidence, **options: Any) -> Shifts:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustedEstimateWarning)
        return fit_shifts(evidence, **options)


class TestTheRawModel:
    @staticmethod
    def costly(monkeypatch: pytest.MonkeyPatch) -> None:
        """An estimator with wrong shifts."""
        wrong = np.array([-8.0, 0, 0, 0, 8])
        monkeypatch.setattr(Shrunk, "energies", lambda *_: Energies(-wrong, np.zeros(5), np.zeros(5)))

    def test_is_kept_where_aligning_clearly_costs(
        self, simulate: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.costly(monkeypatch)
        logits, labels = simulate(np.ones(5), 60, seed=12, separation=2.5)
        shifts = fit_shifts(Evidence.from_arrays(logits, labels, counts=COUNTS, kind="held-out"))
        assert shifts.estimator == "none"
        np.testing.assert_array_equal(shifts.values, 0)
        assert (shifts.selection.gain, shifts.selection.gain_error) == (0.0, 0.0)
        assert chosen(shifts).estimator == "none"
        assert chosen(shifts).score == pytest.approx(accuracy(None, logits, labels))
        assert "by keeping the raw model: aligning costs" in shifts.selection.reason
        assert shifts.concerns == ()
        assert shifts.selection.candidates[1].score < chosen(shifts).score - 0.1

    def test_with_another_target_is_that_for_the_target(
        self, simulate: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.costly(monkeypatch)
        logits, labels = simulate(np.ones(5), 60, seed=12, separation=2.5)
        evidence = Evidence.from_arrays(logits, labels, counts=COUNTS, kind="held-out")
        target = np.array([0.3, 0.3, 0.2, 0.1, 0.1])
        shifts = fit_shifts(evidence, target_prior=target)
        assert shifts.estimator == "none"
        np.testing.assert_allclose(np.diff(shifts.values), np.diff(np.log(target)), atol=1e-12)

    def test_is_never_a_silent_last_resort(self) -> None:
        labels = np.array([0, 1] * 20)
        logits = np.random.default_rng(0).normal(size=(40, 3)) + 2 * np.eye(3)[labels]
        with pytest.warns(UntrustedEstimateWarning, match="no labelled evidence for class 2"):
            shifts = fit_shifts(Evidence.from_arrays(logits, labels, kind="held-out"))
        assert shifts.estimator == "shrunk"


def blobs(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw features and labels of overlapping classes with these counts."""
    counts = np.array([800, 250, 80, 25])
    labels = np.repeat(np.arange(4), counts)
    centres = 1.5 * np.vstack([np.zeros(3), np.eye(3)])
    return np.random.default_rng(seed).normal(size=(len(labels), 3)) + centres[labels], labels, counts


class TestTrainingEvidence:
    @pytest.mark.parametrize("seed", [0, 1])
    def test_a_plain_training_has_a_slope_of_1(self, seed: int) -> None:
        features, labels, counts = blobs(seed)
        model = LogisticRegression().fit(features, labels)
        evidence = Evidence.from_arrays(model.decision_function(features), labels, counts=counts)
        assert fit_posterior(evidence, share_per_class(evidence)).slope == pytest.approx(1, abs=0.02)
        shifts = fit_shifts(evidence)
        assert (shifts.estimator, shifts.strength, shifts.concerns) == ("shrunk", 1, ())
        np.testing.assert_allclose(shifts.values, np.log(counts[-1] / counts), atol=0.05)
        assert shifts.selection.reason.startswith("accuracy on training data is too optimistic; shrunk is the first")
        assert shifts.selection.gain is None

    @pytest.mark.parametrize("seed", [0, 1])
    def test_a_balanced_training_has_a_slope_of_0_and_shifts_of_0(self, seed: int) -> None:
        features, labels, counts = blobs(seed)
        model = LogisticRegression(class_weight="balanced").fit(features, labels)
        evidence = Evidence.from_arrays(model.decision_function(features), labels, counts=counts)
        assert fit_posterior(evidence, share_per_class(evidence)).slope == pytest.approx(0, abs=0.05)
        with pytest.warns(UntrustedEstimateWarning, match="may have been balanced in training"):
            shifts = fit_shifts(evidence)
        np.testing.assert_allclose(shifts.values, 0, atol=0.15)

    def test_samples_that_were_transformed_too_much_are_left_to_marginal(self) -> None:
        features, labels, counts = blobs(2)
        model = LogisticRegression().fit(features, labels)
        moved = features + 1.5 * np.random.default_rng(0).normal(size=features.shape)
        shifts = _quietly(Evidence.from_arrays(model.decision_function(moved), labels, counts=counts))
        assert shifts.estimator == "marginal"
        first = shifts.selection.candidates[0]
        assert first.estimator == "shrunk"
        assert "harder for the model than its training data" in first.problem
        assert chosen(shifts).estimator == "marginal"
        assert "marginal is the first estimator that applies" in shifts.selection.reason

    def test_memorised_samples_do_not_vote_for_no_correction(self, simulate: Callable[..., Any]) -> None:
        logits, labels = memorised(np.random.default_rng(0), np.log(COUNTS))
        assert accuracy(None, logits, labels) == 1
        fresh = simulate(COUNTS, 1000, seed=1, separation=2.5)
        # Large margins are cut at the floor, which removes most of the bias: the correction is partial, with a warning.
        with pytest.warns(UntrustedEstimateWarning, match="may have been balanced in training"):
            shifts = fit_shifts(Evidence.from_arrays(logits, labels, counts=COUNTS, kind="training"))
        assert chosen(shifts).estimator != "none"
        assert accuracy(shifts, *fresh) > accuracy(None, *fresh) + 0.02

    def test_where_they_hide_the_bias_the_counts_have_a_say_and_it_is_said(self) -> None:
        logits, labels = memorised(np.random.default_rng(0), np.zeros(5))
        with pytest.warns(UntrustedEstimateWarning, match="may have been balanced in training"):
            shifts = fit_shifts(Evidence.from_arrays(logits, labels, counts=COUNTS, kind="training"))
        assert np.all(np.diff(shifts.values) >= -1e-9)  # counts fall

    def test_a_model_that_was_balanced_in_training_is_not_given_its_counts(self) -> None:
        """It classifies nearly every sample correctly, by margins that shifts from the counts would remove."""
        rng = np.random.default_rng(0)
        labels = np.repeat(np.arange(5), 40)
        logits = 4 * np.eye(5)[labels] + rng.normal(size=(200, 5))
        with pytest.warns(UntrustedEstimateWarning, match="may have been balanced in training"):
            shifts = fit_shifts(Evidence.from_arrays(logits, labels, counts=COUNTS, kind="training"))
        assert np.ptp(shifts.values) < 1.5  # the counts say 4.6
        assert accuracy(shifts, logits, labels) > accuracy(None, logits, labels) - 0.02

    def test_evidence_is_training_data_unless_said_otherwise(self) -> None:
        assert Evidence.from_arrays(np.zeros((2, 2))).kind == "training"

    def test_the_estimator_asked_for_is_kept_and_its_weakness_said(self) -> None:
        logits = np.random.default_rng(3).normal(size=(60, 5)) * 40  # one sample carries an energy
        with pytest.warns(UntrustedEstimateWarning):
            shifts = fit_shifts(Evidence.from_arrays(logits, counts=COUNTS), estimator="lse")
        assert "fewer than 5 effective samples" in shifts.concerns[0]
        assert shifts.estimator == "lse"
        assert [(c.estimator, c.sharing) for c in shifts.selection.candidates] == [("lse", "monotone")]
        assert "monotone is the first sharing that applies" in shifts.selection.reason

    def test_a_sharing_that_ruins_the_model_is_passed_over(self) -> None:
        """The network never predicts two rare classes: pooled with their neighbours, they would win everywhere."""
        logits, labels = given_up(0)
        with pytest.warns(UntrustedEstimateWarning, match="'per-class' is used instead of 'monotone': its balanced"):
            shifts = fit_shifts(Evidence.from_arrays(logits, labels, counts=COUNTS), estimator="marginal")
        first, second = shifts.selection.candidates
        assert (first.sharing, second.sharing, shifts.selection.chosen) == ("monotone", "per-class", 1)
        fresh = given_up(1)
        evidence = Evidence.from_arrays(logits, labels, counts=COUNTS)
        pooled = _quietly(evidence, estimator="marginal", clusters="monotone")
        assert accuracy(pooled, *fresh) < accuracy(None, *fresh) - 0.1
        assert accuracy(shifts, *fresh) > accuracy(None, *fresh) + 0.1

    def test_if_all_ruin_the_model_auto_keeps_it_as_it_was(self, monkeypatch: pytest.MonkeyPatch) -> None:
        logits, labels = given_up(0)
        monkeypatch.setattr(selection_module, "_ruin", lambda *_: "it would be ruined.")
        with pytest.warns(UntrustedEstimateWarning, match="auto takes 'none' instead of 'shrunk'"):
            shifts = fit_shifts(Evidence.from_arrays(logits, labels, counts=COUNTS))
        assert shifts.values.tolist() == [0] * 5
        assert [c.estimator for c in shifts.selection.candidates] == [*IN_ORDER, "none"]

    def test_an_estimator_asked_for_is_kept_though_it_ruins_the_model(self, monkeypatch: pytest.MonkeyPatch) -> None:
        logits, labels = given_up(0)
        monkeypatch.setattr(selection_module, "_ruin", lambda *_: "it would be ruined.")
        shifts = _quietly(Evidence.from_arrays(logits, labels, counts=COUNTS), estimator="marginal")
        assert chosen(shifts).sharing == "monotone"
        assert any(concern.startswith("it would be ruined. Keep the raw model") for concern in shifts.concerns)

    def test_a_loss_that_chance_explains_ruins_nothing(self) -> None:
        labels = np.arange(20) % 4
        logits = np.random.default_rng(0).normal(size=(20, 4))
        counts = np.array([90, 30, 10, 3])
        evidence = Evidence.from_arrays(logits, labels, counts=counts)
        raw, aligned, error = compare_on_itself(evidence, -np.log(counts))
        assert raw - aligned > selection_module.MAX_LOSS * raw
        assert raw - aligned < 2 * error
        assert _quietly(evidence).estimator != "none"


class TestUnlabelledEvidence:
    @pytest.mark.parametrize("kind", ["held-out", "training"])
    def test_cannot_be_scored(self, simulate: Callable[..., Any], kind: Any) -> None:
        logits, _ = simulate(COUNTS, 200, seed=4, separation=1.0)
        shifts = fit_shifts(Evidence.from_arrays(logits, counts=COUNTS, kind=kind))
        assert all(c.score is None for c in shifts.selection.candidates)
        assert (shifts.selection.gain, shifts.selection.gain_error, shifts.strength) == (None, None, 1)
        assert shifts.selection.reason.startswith("there are no labels to score")
        assert chosen(shifts).estimator == "shrunk"

    def test_energies_alone_will_do(self, simulate: Callable[..., Any]) -> None:
        logits, _ = simulate(COUNTS, 200, seed=5, separation=1.0)
        shifts = fit_shifts(Evidence.from_free_energy(FreeEnergy().update(logits), counts=COUNTS))
        assert chosen(shifts).estimator == "lse"
        problems = {c.estimator: c.problem for c in shifts.selection.candidates}
        assert problems["lse"] is None
        assert "needs the logits" in problems["shrunk"]
        assert "needs the logits" in problems["marginal"]

    def test_energies_of_more_samples_than_memory_has_room_for(self) -> None:
        energy = FreeEnergy().update(np.random.default_rng(0).normal(size=(50, 2)) * 0.3, repeats=np.full(50, 1e14))
        evidence = Evidence.from_free_energy(energy, counts=[2, 1], kind="held-out")
        assert fit_shifts(evidence).n_samples == 5e15

    def test_log_probabilities_are_no_obstacle(self, simulate: Callable[..., Any]) -> None:
        logits, labels = simulate(COUNTS, 60, seed=13)
        one = fit_shifts(Evidence.from_arrays(logits, labels, counts=COUNTS, kind="held-out"))
        two = fit_shifts(Evidence.from_arrays(log_softmax(logits, axis=1), labels, counts=COUNTS, kind="held-out"))
        np.testing.assert_allclose(one.values, two.values, atol=1e-6)


class TestOrder:
    def test_the_first_that_applies_is_taken(
        self, simulate: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert IN_ORDER == ("shrunk", "marginal", "lse", "prior")
        logits, _ = simulate(COUNTS, 60, seed=14)
        evidence = Evidence.from_arrays(logits, counts=COUNTS, kind="held-out")
        for i, estimator in enumerate([Shrunk, Marginal, Lse]):
            assert _quietly(evidence).estimator == estimator.name
            monkeypatch.setattr(estimator, "applies", lambda *_: "not today.")
            with pytest.warns(UntrustedEstimateWarning, match="instead of 'shrunk': not today"):
                shifts = fit_shifts(evidence)
            assert shifts.estimator == IN_ORDER[i + 1]
            assert [c.problem for c in shifts.selection.candidates[: i + 1]] == ["not today."] * (i + 1)
            assert shifts.selection.chosen >= i + 1

    def test_one_that_fails_is_passed_over_with_its_reason(
        self, simulate: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Shrunk, "energies", _fail(EnergyAlignError("too little.")))
        logits, labels = simulate(COUNTS, 60, seed=14)
        for kind in ("training", "held-out"):
            shifts = _quietly(Evidence.from_arrays(logits, labels, counts=COUNTS, kind=kind))
            assert shifts.estimator == "marginal"
        assert shifts.strength != 1
        training = _quietly(Evidence.from_arrays(logits, labels, counts=COUNTS))
        assert training.selection.candidates[0] == Candidate("shrunk", "", problem="too little.")

    @pytest.mark.parametrize("error", [BadValueError("a NaN."), CannotGoOn("a worker died.")])
    @pytest.mark.parametrize("estimator", ["auto", "marginal"])
    @pytest.mark.parametrize("kind", ["training", "held-out"])
    def test_what_no_estimator_is_to_blame_for_ends_it(
        self, simulate: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, error: Exception, estimator: str, kind: Any
    ) -> None:
        for kind_of in (Shrunk, Marginal):
            monkeypatch.setattr(kind_of, "energies", _fail(error))
        logits, labels = simulate(COUNTS, 20, seed=14)
        with pytest.raises(type(error), match=str(error)):
            fit_shifts(Evidence.from_arrays(logits, labels, counts=COUNTS, kind=kind), estimator=estimator)

    @pytest.mark.parametrize("error", [BadValueError("a NaN."), CannotGoOn("a worker died.")])
    def test_nor_in_a_part_of_the_evidence(
        self, simulate: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, error: Exception
    ) -> None:
        self.fail_on_parts(monkeypatch, Shrunk, error)
        logits, labels = simulate(COUNTS, 20, seed=14)
        with pytest.raises(type(error), match=str(error)):
            fit_shifts(Evidence.from_arrays(logits, labels, counts=COUNTS, kind="held-out"))

    def test_a_part_too_small_for_the_estimator_counts_as_raw(
        self, simulate: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.fail_on_parts(monkeypatch, Shrunk, EnergyAlignError("too little"))
        logits, labels = simulate(COUNTS, 20, seed=14)
        with pytest.warns(UntrustedEstimateWarning, match="does not show that aligning helps"):
            shifts = fit_shifts(Evidence.from_arrays(logits, labels, counts=COUNTS, kind="held-out"))
        assert shifts.estimator == "shrunk"
        assert (shifts.selection.gain, shifts.selection.gain_error) == (0, 0)

    @staticmethod
    def fail_on_parts(monkeypatch: pytest.MonkeyPatch, estimator: Any, error: Exception) -> None:
        whole = estimator.energies

        def refuse_a_part(self: Any, evidence: Evidence, clusters: Clusters) -> Energies:
            if evidence.keep is not None:
                raise error
            return whole(self, evidence, clusters)

        monkeypatch.setattr(estimator, "energies", refuse_a_part)

    def test_if_all_fail_the_first_reason_is_given(self) -> None:
        logits = np.zeros((6, 3))
        logits[2] = -np.inf
        evidence = Evidence.from_arrays(logits, [0, 0, 1, 1, 0, 1], counts=[3, 2, 1], kind="held-out")
        with pytest.raises(EnergyAlignError, match=r"a sample has -inf for every class"):
            fit_shifts(evidence, estimator="marginal")
        with pytest.raises(EnergyAlignError, match=r"a sample has -inf for every class"):
            fit_shifts(evidence)

    def test_nothing_applies(self, simulate: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
        for estimator in IN_ORDER:
            monkeypatch.setattr(type(make_estimator(estimator)), "applies", lambda self, _: f"not {self.name}.")
        logits, labels = simulate(COUNTS, 20, seed=14)
        with pytest.raises(EnergyAlignError, match=r"no estimator can use this evidence. The first said: not shrunk"):
            fit_shifts(Evidence.from_arrays(logits, labels, counts=COUNTS))


def _fail(error: Exception) -> Callable[..., Any]:
    def energies(*_: object) -> Energies:
        raise error

    return energies


class TestSharings:
    def test_all_of_an_estimator_are_compared_and_the_best_is_taken(self, simulate: Callable[..., Any]) -> None:
        logits, labels = simulate(COUNTS, 40, seed=15)
        evidence = Evidence.from_arrays(logits, labels, counts=COUNTS, kind="held-out")
        for estimator in ("marginal", "lse"):
            shifts = fit_shifts(evidence, estimator=estimator)
            names = [c.sharing for c in shifts.selection.candidates]
            assert names == ["monotone", "per-class", "jenks-2", "jenks-3", "jenks-4"]
            scores = [c.score for c in shifts.selection.candidates]
            assert shifts.selection.chosen == int(np.argmax(scores))  # the preferred of equals
            assert f"{max(scores):.4f}" in shifts.selection.reason
            pick = chosen(shifts)
            again = fit_shifts(evidence, estimator=estimator, clusters=pick.sharing.removeprefix("jenks-"))
            np.testing.assert_allclose(shifts.values, again.values, atol=1e-9)
            assert pick.largest_error == pytest.approx(shifts.standard_errors.max())

    def test_a_full_choice_leaves_nothing_to_compare(self, simulate: Callable[..., Any]) -> None:
        logits, labels = simulate(COUNTS, 40, seed=15)
        evidence = Evidence.from_arrays(logits, labels, counts=COUNTS, kind="held-out")
        assert fit_shifts(evidence, estimator="lse", clusters="monotone").selection is None
        assert fit_shifts(evidence, estimator="shrunk").selection is None  # it has one way of sharing

    @pytest.mark.parametrize("clusters", ["monotone", 2, [0, 0, 1, 1, 1]])
    def test_one_sharing_for_auto(self, simulate: Callable[..., Any], clusters: Any) -> None:
        logits, labels = simulate(COUNTS, 60, seed=16, separation=2.5)
        shifts = fit_shifts(Evidence.from_arrays(logits, labels, counts=COUNTS, kind="held-out"), clusters=clusters)
        name = {"monotone": "monotone", 2: "jenks-2"}.get(clusters if isinstance(clusters, (str, int)) else "", "given")
        assert [(c.estimator, c.sharing) for c in shifts.selection.candidates[1:]] == [("shrunk", name)] * 2
        if name != "monotone":
            assert len(set(shifts.values)) == 2

    def test_those_that_fail_are_kept_with_their_reason(
        self, simulate: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        whole = Lse.energies

        def refuse_clusters(self: Lse, evidence: Evidence, clusters: Clusters) -> Energies:
            if clusters.n_clusters < 5:
                raise EnergyAlignError("not in clusters.")
            return whole(self, evidence, clusters)

        monkeypatch.setattr(Lse, "energies", refuse_clusters)
        logits, labels = simulate(COUNTS, 40, seed=9, separation=1.0)
        shifts = fit_shifts(Evidence.from_arrays(logits, labels, counts=COUNTS, kind="held-out"), estimator="lse")
        for candidate in shifts.selection.candidates:
            failed = candidate.sharing.startswith("jenks")
            assert candidate.problem == ("not in clusters." if failed else None)
            assert (candidate.score is None) == failed

    def test_a_class_without_labels_is_shared_with_its_neighbours(self, simulate: Callable[..., Any]) -> None:
        logits, labels = simulate(COUNTS, [30, 30, 30, 30, 0], seed=9)
        evidence = Evidence.from_arrays(logits, labels, counts=COUNTS, kind="held-out")
        with pytest.warns(UntrustedEstimateWarning, match="no labelled evidence for class 4"):
            shifts = fit_shifts(evidence, estimator="marginal")
        assert chosen(shifts).sharing == "monotone"  # per class it cannot be had

    def test_the_best_number_of_jenks_clusters_is_taken_also_on_training_data(
        self, simulate: Callable[..., Any]
    ) -> None:
        logits, labels = simulate(COUNTS, 40, seed=3)
        evidence = Evidence.from_arrays(logits, labels, counts=COUNTS)
        shifts = fit_shifts(evidence, estimator="lse", clusters="jenks")
        names = [c.sharing for c in shifts.selection.candidates]
        assert names == ["jenks-2", "jenks-3", "jenks-4"]
        assert chosen(shifts).score == max(c.score for c in shifts.selection.candidates)

    def test_a_monotone_sharing_that_is_wrong_is_passed_over(self, simulate: Callable[..., Any]) -> None:
        bias = np.array([0.0, 0, 0, 0, 4])
        logits, labels = simulate(np.ones(5), 100, seed=5, separation=2.5)
        evidence = Evidence.from_arrays(logits + bias, labels, counts=COUNTS, kind="held-out")
        shifts = fit_shifts(evidence, estimator="marginal")
        assert chosen(shifts).sharing == "per-class"
        np.testing.assert_allclose(shifts.values - shifts.values.mean(), -(bias - bias.mean()), atol=0.5)


class TestRecord:
    def test_survives_the_file(self, simulate: Callable[..., Any], tmp_path: Path) -> None:
        logits, labels = simulate(COUNTS, 30, seed=6)
        shifts = fit_shifts(Evidence.from_arrays(logits, labels, counts=COUNTS, kind="held-out"))
        shifts.save(tmp_path / "shifts.json")
        loaded = Shifts.load(tmp_path / "shifts.json")
        assert loaded.selection == shifts.selection
        assert loaded.strength == shifts.strength

    def test_raw_full_and_scaled_with_the_gain(self, simulate: Callable[..., Any]) -> None:
        logits, labels = simulate(COUNTS, 40, seed=6, separation=2.5)
        evidence = Evidence.from_arrays(logits, labels, counts=COUNTS, kind="held-out")
        shifts = fit_shifts(evidence)
        raw, full, scaled = shifts.selection.candidates
        assert [c.estimator for c in (raw, full, scaled)] == ["none", "shrunk", "shrunk"]
        assert (raw.strength, full.strength, scaled.strength) == (0, 1, shifts.strength)
        assert raw.score == pytest.approx(accuracy(None, logits, labels))
        assert shifts.selection.chosen == 2
        assert shifts.selection.gain == pytest.approx(scaled.score - raw.score)
        assert 0 < shifts.selection.gain_error < shifts.selection.gain
        assert shifts.selection.reason.startswith(
            f"cross-fitted balanced_accuracy: raw {raw.score:.4f}, aligned {full.score:.4f}, chosen {scaled.score:.4f} "
            f"({shifts.selection.gain:+.4f} +- "
        )
        assert scaled.largest_error == pytest.approx(shifts.standard_errors.max())
        assert full.largest_error == pytest.approx(shifts.standard_errors.max() / shifts.strength)

    def test_the_gain_holds_on_fresh_data(self, simulate: Callable[..., Any]) -> None:
        """In ten fits, the true gain is nearly always within two standard errors of the reported gain."""
        fresh = simulate(COUNTS, 4000, seed=1000, separation=2.0)
        raw, scores = accuracy(None, *fresh), []
        for seed in range(10):
            logits, labels = simulate(COUNTS, 40, seed=seed, separation=2.0)
            shifts = _quietly(Evidence.from_arrays(logits, labels, counts=COUNTS, kind="held-out"))
            scores.append((shifts.selection.gain - (accuracy(shifts, *fresh) - raw)) / shifts.selection.gain_error)
        assert np.mean(np.abs(scores) < 2) >= 0.8
        assert abs(np.mean(scores)) < 0.8

    def test_concerns_name_the_classes(self, simulate: Callable[..., Any]) -> None:
        logits, labels = simulate(COUNTS, [30, 30, 30, 30, 0], seed=9)
        names = ["ant", "bee", "cat", "dog", "emu"]
        evidence = Evidence.from_arrays(logits, labels, counts=COUNTS, kind="held-out", class_names=names)
        with pytest.warns(UntrustedEstimateWarning, match="no labelled evidence for class emu") as caught:
            shifts = fit_shifts(evidence)
        assert tuple(str(w.message) for w in caught) == shifts.concerns
        assert shifts.estimator == "shrunk"
        assert "too few samples" in shifts.selection.reason
        assert shifts.values[4] == pytest.approx(shifts.values.max())  # by its count

    @pytest.mark.parametrize("threads", [1, 3])
    def test_no_bit_depends_on_the_number_of_threads(self, simulate: Callable[..., Any], threads: int) -> None:
        logits, labels = simulate(COUNTS, 60, seed=17)
        parts = [Rows(logits[i : i + 50]) for i in range(0, 300, 50)]
        options: dict[str, Any] = {"counts": COUNTS, "kind": "held-out"}
        expected = dump(fit_shifts(Evidence.from_parts(parts, 5, labels, **options)))
        with threadpool_limits(threads, user_api="blas"), Threads() as engine:
            assert dump(fit_shifts(Evidence.from_parts(parts, 5, labels, engine=engine, **options))) == expected


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
        monkeypatch.setattr(samples_module, "MAX_NUMBERS", 500)
        shifts = fit_shifts(evidence)
        whole = Shrunk().estimate(evidence, share_per_class(evidence))
        np.testing.assert_allclose(shifts.values, shifts.strength * whole.shifts, atol=1e-9)
        assert chosen(shifts).largest_error == pytest.approx(shifts.strength * whole.standard_errors.max())
        thinned = _thin(evidence)
        [block] = thinned.blocks()
        assert len(block.labels) == 100
        raw = np.mean([np.mean(np.argmax(block.logits, axis=1)[block.labels == k] == k) for k in range(5)])
        assert shifts.selection.candidates[0].score == pytest.approx(raw)  # compared on a part
        assert shifts.n_samples == 500

    def test_leaves_every_fold_a_sample_of_every_class(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(selection_module, "MAX_NUMBERS", 1000)
        labels = np.arange(1000) % 100
        evidence = Evidence.from_arrays(np.zeros((1000, 100)), labels, kind="held-out")
        assert _thin(evidence).label_counts.tolist() == [5.0] * 100


class TestWhatCannotBeScored:
    def test_a_class_with_too_few_samples_keeps_scores_from_choosing(self) -> None:
        """Without samples of the rare class, scores would show the cost of a correction but not its gain."""
        rng = np.random.default_rng(0)
        labels = np.repeat([0, 1], [100, 1])
        logits = rng.normal(size=(101, 2)) + np.eye(2)[labels] + np.log([100, 1])
        with pytest.warns(
            UntrustedEstimateWarning, match=r"cannot show whether aligning helps.*two samples of class 1"
        ):
            shifts = fit_shifts(Evidence.from_arrays(logits, labels, counts=[100, 1], kind="held-out"))
        assert (shifts.estimator, shifts.strength) == ("shrunk", 1)
        assert shifts.values[0] < -1
        assert shifts.selection.reason.startswith("some class has too few samples to be scored")
        assert shifts.selection.gain is None

    def test_all_samples_of_a_class_in_one_group(self, simulate: Callable[..., Any]) -> None:
        logits, labels = simulate(COUNTS, 20, seed=18)
        groups = np.where(labels == 4, 0, 1 + np.arange(100) % 5)
        with pytest.warns(UntrustedEstimateWarning, match="from two groups if there are groups"):
            shifts = fit_shifts(Evidence.from_arrays(logits, labels, counts=COUNTS, kind="held-out", groups=groups))
        assert "too few samples" in shifts.selection.reason

    @pytest.mark.parametrize("sample", [3, 97])
    def test_a_nan_is_named(self, simulate: Callable[..., Any], sample: int) -> None:
        logits, labels = simulate(COUNTS, 20, seed=18)
        logits[sample, 2] = np.nan
        with pytest.raises(BadValueError, match=f"NaN at sample {sample}, class 2"):
            fit_shifts(Evidence.from_arrays(logits, labels, counts=COUNTS, kind="held-out"))

    def test_masked_classes_need_no_samples(self, simulate: Callable[..., Any]) -> None:
        logits, labels = simulate(COUNTS, [40, 40, 0, 40, 40], seed=19, separation=2.5)
        logits[:, 2] = -np.inf
        shifts = fit_shifts(Evidence.from_arrays(logits, labels, counts=COUNTS, kind="held-out"))
        assert shifts.values[2] == 0
        assert shifts.selection.gain > 0


def test_strain_that_noise_explains_is_none() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(5), 60)
    logits = 2.5 * np.eye(5)[labels] + rng.normal(size=(300, 5))  # no bias at all: pooled everywhere
    result = make_estimator("marginal").estimate(Evidence.from_arrays(logits, labels, counts=COUNTS), "monotone")
    np.testing.assert_array_equal(result.strain, 0.0)


@pytest.mark.parametrize("kind", ["training", "held-out"])
@pytest.mark.parametrize("counts", [[1000, 100, 10, 1], [1, 10, 100, 1000]], ids=["counts", "counts that harm"])
@pytest.mark.parametrize("absent", range(4))
def test_a_class_without_labels_has_a_shift_of_its_own(kind: str, counts: list[int], absent: int) -> None:
    rng = np.random.default_rng(absent)
    labels = np.repeat([k for k in range(4) if k != absent], 30)
    logits = rng.normal(size=(90, 4)) + 2 * np.eye(4)[labels] + np.log([1000, 100, 10, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustedEstimateWarning)
        shifts = fit_shifts(Evidence.from_arrays(logits, labels, counts=counts, kind=kind), clusters="per-class")
    assert np.all(np.isfinite(shifts.values))


def test_accuracy_with_too_few_samples_keeps_the_raw_model_and_its_errors() -> None:
    logits = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 0.5], [0.3, 0.1, 0.7]])
    evidence = Evidence.from_arrays(logits, [0, 1, 2], kind="held-out")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustedEstimateWarning)
        shifts = fit_shifts(evidence, estimator="marginal", clusters=[0, 1, 0], scoring="accuracy")
    np.testing.assert_array_equal(shifts.values, 0)
    np.testing.assert_array_equal(shifts.standard_errors, 0)
