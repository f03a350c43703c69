"""Objectives compared with brute force: a grid of shifts for every score, enumeration for costs, met constraints."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score, make_scorer, precision_score, recall_score

from energyalign import Evidence, fit_shifts
from energyalign.core.errors import BadValueError, EnergyAlignError, UntrustedEstimateWarning
from energyalign.core.objectives import METRICS, Constraints, Costs, make_objective
from energyalign.core.selection.decision import _mean_of_best
from energyalign.core.selection.samples import Aim, Samples

COUNTS = np.array([1200, 300, 60])
Simulate = Callable[..., tuple[np.ndarray, np.ndarray]]


def samples(simulate: Simulate, seed: int, counts: Any = COUNTS) -> tuple[np.ndarray, np.ndarray]:
    """Draw imbalanced samples, as in deployment."""
    return simulate(counts, counts.tolist(), seed=seed, separation=1.5)


def held_out(logits: Any, labels: Any, **options: Any) -> Evidence:
    return Evidence.from_arrays(logits, labels, **{"counts": COUNTS, "kind": "held-out", **options})


def best_on_a_grid(score: Callable[[Any], float], step: float = 0.25) -> float:
    """Return the best score over all shifts of two classes relative to the third."""
    grid = np.arange(-3, 6, step)
    return max(score(np.array([0.0, *shifts])) for shifts in itertools.product(grid, repeat=2))


@pytest.mark.parametrize(
    "scoring",
    [
        "balanced_accuracy", "accuracy", "f1_macro", "f1_weighted", "matthews_corrcoef", "geometric_mean",
        cohen_kappa_score, make_scorer(recall_score, average="macro"), "jaccard_macro",
    ],
    ids=lambda scoring: scoring if isinstance(scoring, str) else type(scoring).__name__,
)  # fmt: skip
def test_every_score_is_near_the_best_that_shifts_can_do(simulate: Simulate, scoring: Any) -> None:
    """The model has a bias that its counts do not explain, so that neither raw nor aligned by counts is best."""
    bias = np.array([-0.8, 1.2, -0.4])
    logits, labels = samples(simulate, 0, 2 * COUNTS)
    fresh, truth = samples(simulate, 1, 4 * COUNTS)
    shifts = fit_shifts(held_out(logits + bias, labels, counts=2 * COUNTS), scoring=scoring)
    objective, weights = make_objective(scoring), np.ones(len(truth))
    if scoring == "balanced_accuracy":  # accuracy on samples that are weighted to be balanced
        weights = 1 / np.bincount(truth)[truth]

    def score(values: Any) -> float:
        return objective.score(truth, np.argmax(fresh + bias + values, axis=1), weights, 3)

    assert shifts.scoring == objective.name
    best = best_on_a_grid(score)  # chosen on the fresh samples themselves
    assert score(shifts.values) > best - 0.015
    assert score(0) < best - 0.015
    raw, aligned, chosen = shifts.selection.candidates
    assert chosen.score - raw.score == pytest.approx(shifts.selection.gain)
    assert (raw.strength, aligned.strength) == (0, 1)


def test_the_errors_of_the_scores_are_those_of_shares(simulate: Simulate) -> None:
    logits, labels = samples(simulate, 2)
    for candidate in fit_shifts(held_out(logits, labels), scoring="accuracy").selection.candidates:
        share = candidate.score
        assert candidate.score_error == pytest.approx(np.sqrt(share * (1 - share) / len(labels)), rel=0.3)


def test_what_is_added_to_the_estimate_leaves_its_errors(simulate: Simulate) -> None:
    """On the path from the class frequencies the estimate has full strength, at any position."""
    logits, labels = samples(simulate, 3)
    evidence = held_out(logits - np.log(COUNTS), labels)
    found = fit_shifts(evidence, scoring="accuracy")
    assert "from the class frequencies" in found.selection.reason
    assert found.strength == 1
    np.testing.assert_array_equal(found.standard_errors, fit_shifts(evidence, estimator="shrunk").standard_errors)


def test_offsets_of_single_classes_leave_the_estimate_at_full_strength(simulate: Simulate) -> None:
    """Shifts with offsets are not a multiple of the estimate: a factor of 0 would hide them and their errors."""
    logits, labels = samples(simulate, 3)
    found = fit_shifts(held_out(logits, labels), scoring="accuracy", minimum_recall={2: 0.9})
    assert "aligned (1), then offsets of single classes: recall" in found.selection.reason
    assert found.strength == 1
    estimate = fit_shifts(held_out(logits, labels), estimator="shrunk")
    np.testing.assert_array_equal(found.standard_errors, estimate.standard_errors)


class TestClassesThatCannotBeScored:
    def test_are_named_and_the_others_scored(self, simulate: Simulate) -> None:
        logits, labels = samples(simulate, 4)
        once = (labels != 2) | (np.cumsum(labels == 2) <= 1)
        with pytest.warns(UntrustedEstimateWarning, match="f1_macro is measured without class 2: give at least two"):
            found = fit_shifts(held_out(logits[once], labels[once]), scoring="f1_macro")
        assert found.selection.gain is not None

    def test_a_minimum_of_another_class_can_be_had(self, simulate: Simulate) -> None:
        logits, labels = samples(simulate, 4)
        once = (labels != 2) | (np.cumsum(labels == 2) <= 1)
        evidence = held_out(logits[once], labels[once])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UntrustedEstimateWarning)
            found = fit_shifts(evidence, scoring="accuracy", minimum_recall={1: 0.8})
        predicted = np.argmax(logits[once] + found.values, axis=1)
        assert np.mean(predicted[labels[once] == 1] == 1) >= 0.8
        with pytest.raises(EnergyAlignError, match="at least two of a class: give more of class 2"):
            fit_shifts(evidence, scoring="accuracy", minimum_recall={2: 0.8})


def test_f1_of_a_model_that_was_balanced_goes_back_towards_the_frequencies(simulate: Simulate) -> None:
    """Its raw decisions are right for equal frequencies, which the samples do not have."""
    logits, labels = samples(simulate, 3)
    balanced = logits - np.log(COUNTS)
    shifts = fit_shifts(held_out(balanced, labels), scoring="f1_macro")
    assert "from the class frequencies" in shifts.selection.reason
    assert shifts.values[0] - shifts.values[2] > 0.5
    assert shifts.selection.gain > 2 * shifts.selection.gain_error


def test_a_target_prior_is_what_the_score_is_about(simulate: Simulate) -> None:
    logits, labels = samples(simulate, 4)
    rare = fit_shifts(held_out(logits, labels), scoring="accuracy", target_prior=[0.1, 0.1, 0.8])
    as_is = fit_shifts(held_out(logits, labels), scoring="accuracy")
    assert np.ptp(as_is.values) < 0.7  # the raw model is the best for its own frequencies
    expected = np.log(np.array([0.1, 0.1, 0.8]) / COUNTS)
    np.testing.assert_allclose(rare.values - rare.values[0], expected - expected[0], atol=0.8)


class TestCosts:
    MATRIX = np.array([[0.0, 1, 1], [1, 0, 1], [30, 30, 0]])

    def test_are_near_the_best_that_shifts_can_do(self, simulate: Simulate) -> None:
        logits, labels = samples(simulate, 5)
        fresh, truth = samples(simulate, 6, 4 * COUNTS)
        shifts = fit_shifts(held_out(logits, labels), costs=self.MATRIX)

        def cost(values: Any) -> float:
            return float(self.MATRIX[truth, np.argmax(fresh + values, axis=1)].mean())

        least = -best_on_a_grid(lambda values: -cost(values))
        assert cost(shifts.values) < least + 0.03
        assert cost(shifts.values) < 0.8 * cost(0)
        assert cost(fit_shifts(held_out(logits, labels)).values) > least + 0.03  # aligned will not do
        assert shifts.scoring == "costs"

    def test_of_two_classes_are_the_closed_form(self) -> None:
        """With calibrated posteriors the threshold on p is c₀ / (c₀ + c₁): a shift of log(c₁ / c₀)."""
        rng = np.random.default_rng(0)
        labels = (rng.random(20_000) < 0.1).astype(int)
        x = rng.normal(size=20_000) + 1.5 * labels
        logit = 1.5 * x - 1.5**2 / 2 + np.log(0.1 / 0.9)
        evidence = held_out(np.column_stack([0 * x, logit]), labels, counts=[18_000, 2_000])
        shifts = fit_shifts(evidence, costs=[[0, 1], [5, 0]])
        assert shifts.values[1] - shifts.values[0] == pytest.approx(np.log(5), abs=0.35)

    def test_of_mistakes_that_cost_the_same_are_accuracy(self, simulate: Simulate) -> None:
        logits, labels = samples(simulate, 7)
        with pytest.warns(UntrustedEstimateWarning, match="does not show that aligning helps"):
            equal = fit_shifts(held_out(logits, labels), costs=1 - np.eye(3))
        assert equal.selection.candidates[-1].score == pytest.approx(
            fit_shifts(held_out(logits, labels), scoring="accuracy").selection.candidates[-1].score - 1, abs=0.01
        )
        assert Costs.make(1 - np.eye(3), 3).of_classes.tolist() == [1, 1, 1]


class TestConstraints:
    @pytest.mark.parametrize("seed", range(4))
    def test_a_recall_is_reached_on_fresh_samples(self, simulate: Simulate, seed: int) -> None:
        logits, labels = samples(simulate, seed)
        fresh, truth = samples(simulate, 50 + seed, 4 * COUNTS)
        evidence = held_out(logits, labels, class_names=["common", "some", "fraud"])
        shifts = fit_shifts(evidence, scoring="accuracy", minimum_recall={"fraud": 0.8})
        predicted = np.argmax(fresh + shifts.values, axis=1)
        assert recall_score(truth, predicted, average=None)[2] > 0.75
        raw = recall_score(truth, np.argmax(fresh, axis=1), average=None)[2]
        assert raw < 0.6
        assert "recall" in shifts.selection.reason
        assert "of class fraud (minimum 0.8)" in shifts.selection.reason

    def test_no_more_is_given_up_than_it_takes(self, simulate: Simulate) -> None:
        logits, labels = samples(simulate, 8)
        evidence = held_out(logits, labels)
        some = fit_shifts(evidence, scoring="accuracy", minimum_recall={2: 0.6}).selection.candidates[-1].score
        more = fit_shifts(evidence, scoring="accuracy", minimum_recall={2: 0.9}).selection.candidates[-1].score
        assert some > more

    def test_a_precision_is_reached(self, simulate: Simulate) -> None:
        logits, labels = samples(simulate, 9)
        fresh, truth = samples(simulate, 59, 4 * COUNTS)
        shifts = fit_shifts(held_out(logits, labels), minimum_precision={1: 0.7})
        predicted = np.argmax(fresh + shifts.values, axis=1)
        assert precision_score(truth, predicted, average=None)[1] > 0.66
        full = fit_shifts(held_out(logits, labels))
        assert precision_score(truth, np.argmax(fresh + full.values, axis=1), average=None)[1] < 0.62

    def test_what_cannot_be_had_is_refused_with_the_best_that_can(self, simulate: Simulate) -> None:
        logits, labels = samples(simulate, 10)
        with pytest.raises(EnergyAlignError, match=r"no shifts that meet.*The best have: recall.* Lower"):
            fit_shifts(held_out(logits, labels), minimum_recall={0: 0.99, 2: 0.99})

    @pytest.mark.parametrize("seed", range(3))
    @pytest.mark.parametrize(
        ("recall", "precision"),
        [({2: 0.8}, {}), ({0: 0.85, 2: 0.75}, {}), ({2: 0.6}, {2: 0.5}), ({}, {2: 0.8}), ({2: 0.5}, {1: 0.5})],
    )
    def test_what_a_grid_of_shifts_reaches_is_reached(
        self, simulate: Simulate, seed: int, recall: dict[int, float], precision: dict[int, float]
    ) -> None:
        logits, labels = samples(simulate, 20 + seed, COUNTS // 4)
        constraints = Constraints(recall, precision)

        def missed(values: Any) -> float:
            predicted = np.argmax(logits + values, axis=1)
            return float(constraints.missed(labels, predicted, np.ones(len(labels)), 3)[0])

        feasible = best_on_a_grid(lambda values: -missed(values)) == 0
        options = {"scoring": "accuracy", "minimum_recall": recall, "minimum_precision": precision}
        if feasible:
            assert missed(fit_shifts(held_out(logits, labels), **options).values) == 0
        else:
            with pytest.raises(EnergyAlignError, match="no shifts that meet the constraints"):
                fit_shifts(held_out(logits, labels), **options)

    def test_samples_with_equal_scores_stay_together(self) -> None:
        """Scores of a tree: the smallest share of class 1 that reaches the recall is known, and chosen."""
        rng = np.random.default_rng(0)
        leaf = rng.integers(5, size=4000)
        labels = (rng.random(4000) < np.array([0.01, 0.05, 0.15, 0.4, 0.8])[leaf]).astype(int)
        logits = np.log(np.array([[0.99, 0.01], [0.95, 0.05], [0.85, 0.15], [0.6, 0.4], [0.2, 0.8]]))[leaf]
        counts = np.bincount(labels)
        share = np.cumsum(np.bincount(leaf, labels, 5)[::-1]) / labels.sum()  # recall of the last 1, 2, ... leaves
        for n_leaves in (2, 3, 4):
            shifts = fit_shifts(
                held_out(logits, labels, counts=counts), scoring="accuracy", minimum_recall={1: share[n_leaves - 1]}
            )
            predicted = np.argmax(logits + shifts.values, axis=1)
            assert set(leaf[predicted == 1]) >= set(range(5 - n_leaves, 5))
            assert set(leaf[predicted == 0])

    def test_one_class_for_every_sample_is_refused(self) -> None:
        logits, labels = np.zeros((200, 2)), np.arange(200) % 4 // 3
        with pytest.raises(EnergyAlignError, match="only predicting class 1 for every sample"):
            fit_shifts(held_out(logits, labels, counts=[150, 50]), minimum_recall={1: 0.8})

    def test_training_evidence_is_refused(self, simulate: Simulate) -> None:
        logits, labels = samples(simulate, 11)
        for options in ({"minimum_recall": {2: 0.8}}, {"costs": 1 - np.eye(3)}):
            with pytest.raises(EnergyAlignError, match="that the model was not trained on"):
                fit_shifts(held_out(logits, labels, kind="training"), **options)

    def test_an_unknown_class_is_named(self, simulate: Simulate) -> None:
        logits, labels = samples(simulate, 11)
        with pytest.raises(BadValueError, match="unknown class 'fraud': choose one of 0, 1, 2"):
            fit_shifts(held_out(logits, labels), minimum_recall={"fraud": 0.8})


class TestWithoutScores:
    @pytest.mark.parametrize(("scoring", "strength"), [("f1_macro", 0.5), ("accuracy", 0.0)])
    def test_training_evidence(self, simulate: Simulate, scoring: str, strength: float) -> None:
        logits, labels = simulate(COUNTS, 60, seed=12)
        evidence = Evidence.from_arrays(logits, labels, counts=COUNTS)
        full = fit_shifts(evidence)
        if scoring == "f1_macro":
            with pytest.warns(UntrustedEstimateWarning, match="f1_macro cannot be measured on this evidence"):
                shifts = fit_shifts(evidence, scoring=scoring)
        else:
            shifts = fit_shifts(evidence, scoring=scoring)
        np.testing.assert_allclose(shifts.values, strength * full.values, atol=1e-12)


def test_an_estimator_that_was_named_is_aimed_too(simulate: Simulate) -> None:
    logits, labels = samples(simulate, 13)
    shifts = fit_shifts(held_out(logits, labels), estimator="prior", scoring="f1_macro")
    assert shifts.estimator == "prior"
    assert 0 < shifts.strength < 1
    assert shifts.selection.candidates[1].estimator == "prior"


def test_the_same_evidence_gives_the_same_bits(simulate: Simulate) -> None:
    logits, labels = samples(simulate, 14)
    one, two = (fit_shifts(held_out(logits, labels), scoring="f1_macro") for _ in range(2))
    assert one.values.tolist() == two.values.tolist()


def scored(labels: np.ndarray, weights: np.ndarray) -> Samples:
    """Make samples with labels and weights only."""
    n_classes = int(labels.max()) + 1
    aim = Aim(METRICS["accuracy"], Constraints(), np.full(n_classes, 1 / n_classes), None, np.ones(n_classes))
    nothing = np.zeros((len(labels), n_classes))
    return Samples(
        nothing,
        labels,
        weights,
        np.ones(len(labels)),
        np.zeros(len(labels), dtype=np.int64),
        [],
        np.zeros(n_classes),
        aim,
    )


class TestGain:
    labels = np.repeat(np.arange(4), [90, 50, 30, 30])
    weights = np.array([0.4, 0.3, 0.2, 0.1])[labels] / np.bincount(labels)[labels]

    def test_is_the_difference_of_two_scores(self) -> None:
        rng = np.random.default_rng(2)
        one, two = (np.where(rng.random(200) < rate, self.labels, (self.labels + 1) % 4) for rate in (0.8, 0.7))
        fitted = scored(self.labels, self.weights)
        gain, _ = fitted.gain(one, two)
        assert gain == pytest.approx(fitted.score(one) - fitted.score(two))
        assert fitted.gain(two, one)[0] == pytest.approx(-gain)
        assert fitted.gain(one, one) == (0.0, 0.0)

    def test_its_error_is_the_spread_over_repeated_samples(self) -> None:
        """In each draw a sample is gained, lost or unchanged, with the rates of its class."""
        rng = np.random.default_rng(0)
        gained, lost = np.array([0.02, 0.05, 0.10, 0.25])[self.labels], 0.05
        fitted, wrong, found = scored(self.labels, self.weights), (self.labels + 1) % 4, []
        for _ in range(300):
            luck = rng.random(200)
            new, old = luck < gained, (luck >= gained) & (luck < gained + lost)
            found.append(fitted.gain(*(np.where(right, self.labels, wrong) for right in (new, old))))
        gains, errors = np.transpose(found)
        assert errors.mean() == pytest.approx(gains.std(), rel=0.15)


class TestTheBestPosition:
    positions = np.array([0.0, 0.5, 1.0, 1.5])

    def test_ties_share(self) -> None:
        assert _mean_of_best(np.array([1.0, 1, 1, 1]), self.positions) == 0.75
        assert _mean_of_best(np.array([0.0, 1, 1, 0.5]), self.positions) == 0.75
        assert _mean_of_best(np.array([0.0, 0.2, 1, 0.5]), self.positions) == 1.0

    def test_the_model_has_it_at_full_strength_for_balanced_accuracy(self, simulate: Simulate) -> None:
        """The strength is halfway between 1 and the best strength under the labels: at least a half."""
        for seed in range(3):
            logits, labels = simulate(COUNTS, 8, seed=seed)
            found = warnings_ignored(held_out(logits, labels))
            assert 0.5 <= found.strength <= 1.25


def warnings_ignored(evidence: Evidence) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustedEstimateWarning)
        return fit_shifts(evidence)
