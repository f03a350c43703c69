"""Every head is converted to rows of logits, and its shifts to the shape of its logits."""

from __future__ import annotations

from typing import Any

import array_api_strict
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from energyalign import EnergyAligner, EnergyAlignError, Evidence, Shifts, UntrustedEstimateWarning, fit_shifts

ESTIMATORS = ["auto", "shrunk", "marginal", "lse", "prior"]
quiet = pytest.mark.filterwarnings("ignore::energyalign.UntrustedEstimateWarning")


def one_logit(n: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Draw one logit per sample; one sample in ten is positive."""
    rng = np.random.default_rng(seed)
    labels = (rng.random(n) < 0.1).astype(np.int64)
    return 2.0 * labels - 1.0 + rng.normal(size=n) + np.log(0.1 / 0.9), labels


def maps(shape: tuple[int, ...] = (12, 3, 5, 4), seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Draw images of three classes of pixels, some of them ignored."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(3, size=(shape[0], *shape[2:]), p=[0.7, 0.2, 0.1])
    logits = rng.normal(size=shape) + np.log([0.7, 0.2, 0.1]).reshape(3, *(1,) * (len(shape) - 2))
    logits += 2.0 * np.moveaxis(np.eye(3)[labels], -1, 1)
    labels[rng.random(labels.shape) < 0.2] = -100
    return logits, labels


def fitted(logits: Any, labels: Any, estimator: str = "auto", **known: Any) -> Shifts:
    return fit_shifts(Evidence.from_arrays(logits, labels, kind="held-out", **known), estimator=estimator)


def assert_same(one: Shifts, other: Shifts) -> None:
    for name in ("values", "standard_errors", "energies", "counts"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert (one.estimator, one.strength, one.n_samples) == (other.estimator, other.strength, other.n_samples)


class TestOneLogit:
    @pytest.mark.parametrize("estimator", ESTIMATORS)
    @pytest.mark.parametrize("form", ["vector", "column", "torch"])
    @quiet
    def test_is_two_classes_with_logits_0_and_f(self, estimator: str, form: str) -> None:
        scores, labels = one_logit()
        given = {"vector": scores, "column": scores[:, None], "torch": torch.tensor(scores)}[form]
        two = np.column_stack([np.zeros_like(scores), scores])
        two = torch.tensor(two) if form == "torch" else two
        assert_same(fitted(given, labels, estimator), fitted(two, labels, estimator))

    @given(seed=st.integers(0, 2**32 - 1))
    def test_what_comes_out_is_that_of_two_classes(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        scores, labels = one_logit(60, seed)
        labels[:2] = 0, 1
        shifts = fitted(*one_logit(), "prior", counts=rng.uniform(1, 100, 2))
        two = np.column_stack([np.zeros_like(scores), scores])
        difference = shifts.values[1] - shifts.values[0]
        for form in (scores, scores[:, None]):
            np.testing.assert_array_equal(shifts.apply(form), form + difference)
            np.testing.assert_array_equal(shifts.predict(form), shifts.predict(two))
            np.testing.assert_allclose(shifts.predict_proba(form), shifts.predict_proba(two), rtol=1e-12)
        np.testing.assert_allclose(shifts.predict_proba(scores)[:, 1], expit(scores + difference), rtol=1e-9)

    def test_prior_is_the_log_odds_of_the_training_labels(self) -> None:
        shifts = fitted(*one_logit(), "prior", counts=[90, 10])
        assert shifts.apply(np.zeros(1))[0] == pytest.approx(np.log(90 / 10))

    @pytest.mark.parametrize("kind", [bool, float, np.int8])
    def test_labels_as_losses_take_them(self, kind: type) -> None:
        scores, labels = one_logit()
        expected = fitted(scores, labels, "marginal")
        for form in (labels.astype(kind), labels.astype(kind)[:, None]):
            assert_same(fitted(scores[:, None], form, "marginal"), expected)

    def test_labels_that_are_no_sides(self) -> None:
        scores, labels = one_logit()
        with pytest.raises(EnergyAlignError, match=r"labels must be class numbers \(integers\), .*got float64"):
            fitted(scores, labels / 2)
        with pytest.raises(EnergyAlignError, match="label 2 of sample 0 is out of range"):
            fitted(scores, labels + 2)

    def test_the_aligner_names_both_sides(self) -> None:
        scores, labels = one_logit()
        names = np.array(["ham", "spam"])[labels]
        aligner = EnergyAligner(estimator="marginal", evidence="held-out").fit(scores, names)
        assert aligner.classes_.tolist() == ["ham", "spam"]
        assert aligner.n_features_in_ == 1
        assert set(aligner.predict(scores)) == {"ham", "spam"}
        assert np.mean(aligner.predict(scores)[names == "spam"] == "spam") > 0.7 > np.mean(scores[labels == 1] > 0)
        np.testing.assert_array_equal(aligner.transform(scores[:, None])[:, 0], aligner.transform(scores))
        assert aligner.predict_proba(scores).shape == (len(scores), 2)

    @quiet
    def test_a_sigmoid_is_noticed(self) -> None:
        scores, labels = one_logit()
        with pytest.warns(UntrustedEstimateWarning, match=r"between 0 and 1, like sigmoid outputs"):
            fitted(expit(scores), labels, "marginal")
        few = fitted(expit(scores)[:15], np.arange(15) % 2, "marginal")
        assert not any("sigmoid" in concern for concern in few.concerns)

    def test_three_labels_are_too_many(self) -> None:
        with pytest.raises(EnergyAlignError, match="y has 3 distinct labels and the logits have 2 columns"):
            EnergyAligner().fit(np.linspace(-1, 1, 6), [0, 1, 2, 0, 1, 2])


class TestPositions:
    @pytest.mark.parametrize("estimator", ESTIMATORS)
    @pytest.mark.parametrize("form", ["image", "volume", "sequence"])
    @quiet
    def test_equal_to_reshaped_without_what_is_ignored(self, estimator: str, form: str) -> None:
        logits, labels = maps((12, 3, 5, 2, 2) if form == "volume" else (12, 3, 5, 4))
        rows = np.moveaxis(logits, 1, -1).reshape(-1, 3)
        images = np.repeat(np.arange(12), 20)
        kept = labels.reshape(-1) != -100
        if form == "sequence":
            logits, labels = rows.reshape(12, 20, 3), labels.reshape(12, 20)
        expected = fitted(rows[kept], labels.reshape(-1)[kept], estimator, groups=images[kept])
        assert_same(fitted(logits, labels, estimator), expected)
        assert expected.n_samples == kept.sum()

    @pytest.mark.parametrize("library", [np.asarray, torch.as_tensor, array_api_strict.asarray])
    def test_in_any_library(self, library: Any) -> None:
        logits, labels = maps()
        shifts = fitted(logits, labels, "marginal")
        np.testing.assert_allclose(fitted(library(logits), labels, "marginal").values, shifts.values, rtol=1e-9)
        np.testing.assert_array_equal(np.asarray(shifts.apply(library(logits))), shifts.apply(logits))
        assert shifts.predict(library(logits)).shape == (12, 5, 4)

    def test_what_comes_out_has_the_form_of_the_head(self) -> None:
        logits, labels = maps()
        shifts = fitted(logits, labels, "marginal")
        corrected = logits + shifts.values[:, None, None]
        np.testing.assert_array_equal(shifts.apply(logits), corrected)
        np.testing.assert_array_equal(shifts.predict(logits), corrected.argmax(1))
        np.testing.assert_allclose(shifts.predict_proba(logits).sum(axis=1), 1)
        tokens = np.moveaxis(logits, 1, -1).reshape(12, 20, 3)
        np.testing.assert_array_equal(shifts.predict(tokens).reshape(12, 5, 4), corrected.argmax(1))
        again = logits.copy()
        assert shifts.apply(again, inplace=True) is again
        np.testing.assert_array_equal(again, corrected)

    def test_the_aligner_takes_them_too(self) -> None:
        logits, labels = maps()
        names = np.array(["sky", "road", "cat"])
        aligner = EnergyAligner(estimator="marginal", evidence="held-out", classes=names)
        words = np.where(labels < 0, "-", names[labels.clip(0)])
        with pytest.raises(EnergyAlignError, match=r"y has labels that no column stands for: -\."):
            aligner.fit(logits, words)
        numbered = EnergyAligner(estimator="marginal", evidence="held-out", ignore_index=255)
        numbered.fit(logits, np.where(labels < 0, 255, labels))
        np.testing.assert_array_equal(numbered.shifts_.values, fitted(logits, labels, "marginal").values)
        assert numbered.predict(logits).shape == labels.shape
        assert numbered.n_features_in_ == 3

    def test_one_logit_per_pixel(self) -> None:
        rng = np.random.default_rng(0)
        labels = (rng.random((10, 4, 4)) < 0.2).astype(float)
        logits = 2 * labels - 2 + rng.normal(size=(10, 4, 4))
        shifts = fitted(logits[:, None], labels[:, None], "marginal")
        assert_same(shifts, fitted(logits.reshape(-1), labels.reshape(-1), "marginal"))
        assert shifts.apply(logits[:, None]).shape == (10, 1, 4, 4)
        np.testing.assert_array_equal(shifts.predict(logits[:, None]), shifts.apply(logits[:, None])[:, 0] > 0)

    @quiet
    def test_pixels_of_an_image_are_scored_by_shifts_of_others(self) -> None:
        logits, labels = maps()
        by_image = fitted(logits, labels)
        rows, flat = np.moveaxis(logits, 1, -1).reshape(-1, 3), labels.reshape(-1)
        assert by_image.strength != fitted(rows, flat).strength
        one_group = fitted(logits, labels, groups=np.zeros(12))
        assert any("from two groups" in concern for concern in one_group.concerns)

    def test_weights_and_groups_are_per_sample(self) -> None:
        logits, labels = maps()
        weights = np.arange(1.0, 13.0)
        rows, flat = np.moveaxis(logits, 1, -1).reshape(-1, 3), labels.reshape(-1)
        expected = fitted(rows, flat, "marginal", repeats=np.repeat(weights, 20))
        assert_same(fitted(logits, labels, "marginal", repeats=weights), expected)
        with pytest.raises(EnergyAlignError, match=r"repeats must have shape \(12,\), one per sample, got \(3,\)"):
            fitted(logits, labels, repeats=weights[:3])

    def test_labels_of_another_shape(self) -> None:
        logits, labels = maps()
        with pytest.raises(EnergyAlignError, match=r"labels must have shape \(12, 5, 4\), one per position of logits"):
            fitted(logits, labels[:, :2])
        with pytest.raises(EnergyAlignError, match="at least one row of logits whose label is not ignored"):
            fitted(logits, np.full_like(labels, -100))

    def test_ignored_rows_of_the_ordinary_head(self) -> None:
        logits, labels = maps()
        rows, flat = np.moveaxis(logits, 1, -1).reshape(-1, 3), labels.reshape(-1)
        groups = np.repeat(np.arange(12), 20)
        kept = flat != -100
        expected = fitted(rows[kept], flat[kept], groups=groups[kept])
        assert_same(fitted(rows, flat, groups=groups), expected)

    @pytest.mark.parametrize("shape", [(2, 4, 3, 3), (2, 3, 4), (2, 1), (2,), (2, 1, 5, 5)])
    def test_shapes_that_three_shifts_do_not_fit(self, shape: tuple[int, ...]) -> None:
        shifts = fitted(*maps(), "marginal")
        with pytest.raises(EnergyAlignError, match="do not fit shifts for 3 classes"):
            shifts.apply(np.zeros(shape))
