"""Every concern about an estimate is reported with names and a remedy, and only if there is a reason."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp, softmax

from energyalign.core.clusters import Clusters
from energyalign.core.errors import UntrustedEstimateWarning
from energyalign.core.estimators import make_estimator
from energyalign.core.evidence import Evidence
from energyalign.core.fitting import fit_shifts
from energyalign.core.selection.record import Candidate, Selection
from energyalign.core.shifts import Shifts
from energyalign.core.trust import concerns

NAMES = ["ant", "bee", "cat", "dog"]
COUNTS = [300.0, 100, 30, 10]


def doubted(evidence: Evidence, message: str, **options: Any) -> Shifts:
    """Fit, check that one warning matches and is kept word for word, and return the shifts."""
    with pytest.warns(UntrustedEstimateWarning, match=message) as caught:
        shifts = fit_shifts(evidence, **options)
    assert tuple(str(w.message) for w in caught) == shifts.concerns
    assert len(shifts.concerns) == 1
    return shifts


@pytest.mark.parametrize("estimator", ["lse", "marginal", "shrunk", "prior", "none"])
@pytest.mark.parametrize("clusters", ["per-class", "monotone", 2])
def test_good_evidence_raises_no_doubt(simulate: Callable[..., Any], estimator: str, clusters: Any) -> None:
    logits, labels = simulate(COUNTS, 60, seed=0)
    evidence = Evidence.from_arrays(logits, labels, counts=COUNTS)
    assert fit_shifts(evidence, estimator=estimator, clusters=clusters).concerns == ()


class TestThinEnergies:
    def carried_by_one(self) -> np.ndarray:
        logits = np.random.default_rng(0).normal(size=(100, 4))
        logits[7, 2] = 60.0  # the whole energy of cat
        logits[8:12, 0] = 50.0  # four samples for ant
        return logits

    def test_names_the_classes_worst_first_and_the_remedy(self) -> None:
        evidence = Evidence.from_arrays(self.carried_by_one(), class_names=NAMES)
        message = (
            r"2 of 4 classes rests on fewer than 5 effective samples \(cat, ant; the smallest is 1\.0 of 100\)"
            r".*estimator 'marginal' or 'auto', or give more evidence"
        )
        shifts = doubted(evidence, message, estimator="lse", clusters="per-class")
        # Only a warning: the result is what was requested.
        assert shifts.estimator == "lse"
        expected = logsumexp(self.carried_by_one(), axis=0)
        np.testing.assert_allclose(shifts.values, expected[0] - expected, atol=1e-12)

    def test_concerns_no_other_estimator(self) -> None:
        evidence = Evidence.from_arrays(self.carried_by_one(), counts=COUNTS)
        for estimator in ("marginal", "shrunk", "prior"):
            assert fit_shifts(evidence, estimator=estimator, clusters="per-class").concerns == ()

    def test_weights_do_not_hide_it(self) -> None:
        # Two samples of class 1 are weighted to count as fifty, but remain two.
        logits = np.where(np.eye(2)[[0] * 50 + [1] * 2] > 0, 5.0, -5.0)
        evidence = Evidence.from_arrays(logits, [0] * 50 + [1] * 2, counts=[50, 2])
        doubted(evidence, r"1 of 2 classes .*\(1; the smallest is 2\.0 of 52\)", estimator="lse", clusters="per-class")

    def test_masked_classes_are_not_thin(self) -> None:
        logits = np.zeros((9, 3))
        logits[:, 1] = -np.inf
        assert fit_shifts(Evidence.from_arrays(logits), estimator="lse", clusters="per-class").concerns == ()


class TestLooseShifts:
    def test_a_model_too_sure_of_its_evidence(self) -> None:
        # Ant and bee overlap; the model separates cat and dog from all others by 12 logits.
        kinds = np.arange(40) % 4
        logits = 12 * np.eye(4)[kinds]
        logits[kinds < 2, :2] = 12 + np.random.default_rng(0).normal(size=(20, 2))
        evidence = Evidence.from_arrays(logits, class_names=NAMES)
        with pytest.warns(UntrustedEstimateWarning) as caught:
            shifts = fit_shifts(evidence, estimator="marginal", clusters=[0, 1, 2, 3])
        [text] = [str(w.message) for w in caught]
        assert "2 of 4 classes is uncertain by more than 1 (" in text
        assert "cat" in text
        assert "dog" in text
        assert "ant" not in text
        assert "clusters 'monotone', or use estimator 'prior'" in text
        assert np.all((shifts.standard_errors[2:] > 1) & np.isfinite(shifts.standard_errors[2:]))

    def test_an_unknown_shift_is_not_passed_off_as_known(self) -> None:
        logits = np.full((40, 4), -60.0)
        labels = np.arange(40) % 4
        logits[labels < 2, :2] = np.random.default_rng(0).normal(size=(20, 2))
        logits[labels >= 2, 2:] = np.random.default_rng(1).normal(size=(20, 2))
        evidence = Evidence.from_arrays(logits, labels)
        shifts = doubted(evidence, r"2 of 4 classes is uncertain", estimator="marginal", clusters="per-class")
        assert shifts.standard_errors[2:].tolist() == [np.inf, np.inf]


class TestUnseenClasses:
    def test_are_named_with_how_they_were_served(self, simulate: Callable[..., Any]) -> None:
        logits, labels = simulate(COUNTS, [60, 60, 0, 60], seed=1)
        evidence = Evidence.from_arrays(logits, labels, counts=COUNTS, class_names=NAMES)
        for clusters, name in (("monotone", "monotone"), (2, "jenks-2"), ([0, 0, 1, 1], "given")):
            message = rf"no labelled evidence for class cat: .*\(sharing: {name}\)\. Add samples"
            for estimator in ("lse", "marginal", "shrunk"):
                doubted(evidence, message, estimator=estimator, clusters=clusters)

    def test_are_no_concern_of_the_counts(self, simulate: Callable[..., Any]) -> None:
        logits, labels = simulate(COUNTS, [60, 60, 0, 60], seed=1)
        evidence = Evidence.from_arrays(logits, labels, counts=COUNTS)
        assert fit_shifts(evidence, estimator="prior", clusters="per-class").concerns == ()

    def test_masked_classes_are_no_concern(self, simulate: Callable[..., Any]) -> None:
        logits, labels = simulate(COUNTS, [60, 60, 0, 60], seed=1)
        logits[:, 2] = -np.inf
        evidence = Evidence.from_arrays(logits, labels, counts=COUNTS)
        for estimator in ("lse", "marginal", "shrunk"):
            assert fit_shifts(evidence, estimator=estimator, clusters="per-class").concerns == ()


class TestLogProbabilities:
    def test_lse_is_told_that_they_are_not_logits(self, simulate: Callable[..., Any]) -> None:
        logits, labels = simulate(COUNTS, 60, seed=2)
        evidence = Evidence.from_arrays(log_softmax(logits, axis=1), labels, counts=COUNTS)
        message = "these scores are log-probabilities: .*before softmax, or use estimator 'marginal'"
        doubted(evidence, message, estimator="lse", clusters="per-class")

    @pytest.mark.parametrize(("estimator", "kind"), [("marginal", "training"), ("shrunk", "held-out")])
    def test_others_do_not_mind(self, simulate: Callable[..., Any], estimator: str, kind: Any) -> None:
        logits, labels = simulate(COUNTS, 60, seed=2)
        evidence = Evidence.from_arrays(log_softmax(logits, axis=1), labels, counts=COUNTS, kind=kind)
        assert fit_shifts(evidence, estimator=estimator, clusters="per-class").concerns == ()


def test_several_reasons_are_all_given() -> None:
    logits = log_softmax(np.random.default_rng(3).normal(size=(60, 3)) * 3, axis=1)
    logits[:, 2] -= 40
    logits[0] = [-40.0, -40.0, 0.0]
    labels = np.arange(60) % 2
    evidence = Evidence.from_arrays(log_softmax(logits, axis=1), labels, counts=[30, 20, 10])
    with pytest.warns(UntrustedEstimateWarning) as caught:
        shifts = fit_shifts(evidence, estimator="lse", clusters="monotone")
    assert len(caught) == len(shifts.concerns) == 2
    assert "no labelled evidence" in shifts.concerns[0]
    assert "log-probabilities" in shifts.concerns[1]


@pytest.mark.parametrize("estimator", ["lse", "marginal", "shrunk"])
def test_probabilities_given_as_logits(estimator: str) -> None:
    """Their logarithms are used, with a warning."""
    labels = np.arange(80) % 4
    probabilities = softmax(np.random.default_rng(0).normal(size=(80, 4)) + 2 * np.eye(4)[labels], axis=1)
    options: Any = {"estimator": estimator, "clusters": "per-class"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustedEstimateWarning)
        shifts = fit_shifts(Evidence.from_arrays(probabilities, labels), **options)
        expected = fit_shifts(Evidence.from_arrays(np.log(probabilities), labels), **options)
    np.testing.assert_allclose(shifts.values, expected.values, atol=1e-9)
    said = [concern for concern in shifts.concerns if "their logarithms were taken as logits" in concern]
    assert tuple(concern for concern in shifts.concerns if concern not in said) == expected.concerns
    assert len(said) == 1


class TestCounts:
    counts = np.array([1000.0, 300, 100, 30, 10])

    def logits_and_labels(self, bias: Any, per_class: int = 40) -> tuple[np.ndarray, np.ndarray]:
        labels = np.repeat(np.arange(5), per_class)
        noise = np.random.default_rng(0).normal(size=(len(labels), 5))
        return 2 * np.eye(5)[labels] + noise + np.asarray(bias), labels

    @pytest.mark.parametrize("kind", ["training", "out-of-fold", "held-out"])
    def test_in_another_order_are_noticed(self, kind: Any) -> None:
        """Otherwise shifts would not follow the bias, and correct nothing, without a warning."""
        logits, labels = self.logits_and_labels(np.log(self.counts))
        turned = Evidence.from_arrays(logits, labels, counts=self.counts[::-1], kind=kind)
        with pytest.warns(UntrustedEstimateWarning) as caught:
            shifts = fit_shifts(turned)
        assert tuple(str(w.message) for w in caught) == shifts.concerns
        assert "runs against the training counts (slope -" in shifts.concerns[0]
        assert "are the counts in the order of the classes" in shifts.concerns[0]
        assert fit_shifts(Evidence.from_arrays(logits, labels, counts=self.counts, kind=kind)).concerns == ()

    def test_that_the_bias_does_not_follow_are_no_news_on_held_out_samples(self) -> None:
        logits, labels = self.logits_and_labels(np.zeros(5), 200)
        evidence = Evidence.from_arrays(logits, labels, counts=self.counts, kind="held-out")
        assert fit_shifts(evidence, estimator="shrunk").concerns == ()

    def test_a_model_that_was_balanced_in_training(self) -> None:
        """Its training samples show no bias that follows the counts, and cannot show whether aligning helps."""
        logits, labels = self.logits_and_labels(np.zeros(5))
        evidence = Evidence.from_arrays(logits, labels, counts=self.counts)
        doubted(evidence, r"may have been balanced in training \(slope .*Use held-out samples")

    def test_deviations_seen_on_training_samples(self) -> None:
        bias = np.log(self.counts) + np.array([0, 3, -3, 3, -3])
        logits, labels = self.logits_and_labels(bias)
        message = r"deviate from their counts by \d\.\d logits, as seen on training samples: check"
        doubted(Evidence.from_arrays(logits, labels, counts=self.counts), message, estimator="shrunk")
        held_out = Evidence.from_arrays(logits, labels, counts=self.counts, kind="held-out")
        assert fit_shifts(held_out, estimator="shrunk").concerns == ()

    def test_equal_counts_say_nothing_of_how_the_model_was_trained(self) -> None:
        logits, labels = self.logits_and_labels(np.zeros(5))
        assert fit_shifts(Evidence.from_arrays(logits, labels, counts=np.full(5, 40))).concerns == ()


class TestSharingThatStrains:
    def test_names_the_class(self) -> None:
        # A model that never predicts its second rarest class: its logit is much lower than its count explains.
        counts = np.array([1000.0, 300, 100, 30, 10])
        labels = np.repeat(np.arange(5), 60)
        noise = np.random.default_rng(0).normal(size=(300, 5))
        logits = 2.5 * np.eye(5)[labels] + noise + np.log(counts) - np.array([0, 0, 0, 12, 0])
        evidence = Evidence.from_arrays(logits, labels, counts=counts, class_names=[*NAMES, "emu"], kind="held-out")
        message = r"monotone sharing moves the shift of class.* dog.* by up to \d\.\d.*\(clusters: per-class\)"
        doubted(evidence, message, estimator="marginal", clusters="monotone")
        assert fit_shifts(evidence, estimator="marginal", clusters="per-class").concerns == ()


class TestGain:
    """Warnings of `auto` about its own cross-fitted gain."""

    @staticmethod
    def concerns(gain: float | None, error: float | None, *, strength: float = 1.0) -> list[str]:
        evidence = Evidence.from_arrays(np.random.default_rng(0).normal(size=(20, 4)), np.arange(20) % 4)
        estimate = make_estimator("none").estimate(evidence, Clusters.per_class(4))
        candidate = Candidate("none", "per-class", strength)
        return concerns(evidence, estimate, Selection((candidate,), 0, "so and so.", gain, error))

    def test_less_than_its_standard_error_is_a_concern_with_the_figures(self) -> None:
        [text] = self.concerns(0.01, 0.02)
        assert text.startswith("the evidence does not show that aligning helps: so and so. The shifts are applied.")
        assert len(self.concerns(-0.01, 0.02)) == 1

    def test_more_is_none(self) -> None:
        assert self.concerns(0.03, 0.02) == []

    def test_the_raw_model_kept_is_none(self) -> None:
        assert self.concerns(0.0, 0.0, strength=0.0) == []

    def test_nothing_changed_is_a_concern(self) -> None:
        assert len(self.concerns(0.0, 0.0)) == 1

    def test_what_cannot_be_scored_is_none(self) -> None:
        assert self.concerns(None, None) == []
