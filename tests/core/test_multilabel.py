"""Independent labels: each is fitted as if it were the only one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import expit, logit

from energyalign import EnergyAligner, EnergyAlignError, Evidence, Shifts, UntrustedEstimateWarning, fit_shifts
from energyalign.core._io.shifts_json import dump_labels, seal
from energyalign.core.multilabel import MultilabelEvidence, MultilabelShifts, fit_multilabel, load_shifts

SHARES = np.array([0.3, 0.1, 0.5])
NAMES = ["rain", "fog", "wind"]
quiet = pytest.mark.filterwarnings("ignore::energyalign.UntrustedEstimateWarning")


def problem(n: int = 500, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = (rng.random((n, 3)) < SHARES).astype(np.int64)
    return 2.0 * labels - 1.0 + rng.normal(size=(n, 3)) + logit(SHARES), labels


def fitted(logits: Any, labels: Any, estimator: str = "auto", **known: Any) -> MultilabelShifts:
    evidence = MultilabelEvidence.from_arrays(logits, labels, kind="held-out", **known)
    return fit_multilabel(evidence, estimator=estimator)


def test_prior_is_the_difference_of_log_odds() -> None:
    counts = [[70, 30], [900, 100], [5, 5]]
    evidence = MultilabelEvidence.from_arrays(*problem(), counts=counts)
    shifts = fit_multilabel(evidence, estimator="prior")
    np.testing.assert_allclose(shifts.values, -logit([0.3, 0.1, 0.5]), atol=1e-12)
    aimed = fit_multilabel(evidence, estimator="prior", target_prior=[0.2, 0.5, 0.9])
    np.testing.assert_allclose(aimed.values, logit([0.2, 0.5, 0.9]) - logit([0.3, 0.1, 0.5]), atol=1e-12)
    np.testing.assert_allclose(fit_multilabel(evidence, estimator="prior", tau=0.5).values, shifts.values / 2)


@pytest.mark.parametrize("estimator", ["auto", "shrunk", "marginal", "lse"])
@quiet
def test_each_label_is_fitted_as_if_it_were_alone(estimator: str) -> None:
    logits, labels = problem()
    labels[:40, 1] = -100  # not known of all samples
    shifts = fitted(logits, labels, estimator)
    for k in range(3):
        known = labels[:, k] >= 0
        own = labels[known, k]
        evidence = Evidence.from_arrays(logits[known, k], own, kind="held-out", counts=np.bincount(own))
        alone = fit_shifts(evidence, estimator=estimator)
        np.testing.assert_array_equal(shifts.labels[k].values, alone.values)
        assert shifts.values[k] == alone.values[1] - alone.values[0]
        assert shifts.standard_errors[k] == alone.standard_errors.max()
        assert shifts.labels[k].n_samples == known.sum()


def test_what_comes_out() -> None:
    logits, labels = problem()
    shifts = fitted(logits, labels, "marginal", class_names=NAMES)
    corrected = logits + shifts.values
    np.testing.assert_array_equal(shifts.apply(logits), corrected)
    np.testing.assert_array_equal(shifts.predict(logits), corrected > 0)
    np.testing.assert_allclose(shifts.predict_proba(1000 * logits), expit(1000 * logits + shifts.values), 1e-9, 1e-300)
    assert torch.equal(shifts.apply(torch.tensor(logits)), torch.tensor(corrected))
    assert shifts.class_names == tuple(NAMES)
    recall = np.mean(shifts.predict(logits)[labels[:, 1] == 1, 1])
    assert recall > np.mean(logits[labels[:, 1] == 1, 1] > 0) + 0.2


def test_two_labels_are_not_one_logit() -> None:
    logits, labels = problem()
    shifts = fitted(logits[:, :2], labels[:, :2], "marginal")
    assert shifts.apply(np.zeros(2)).tolist() == shifts.values.tolist()
    with pytest.raises(EnergyAlignError, match=r"shape \(7, 1\) do not fit shifts for 2"):
        shifts.apply(np.zeros((7, 1)))


def test_labels_of_pixels() -> None:
    logits, labels = problem(480)
    expected = fitted(logits, labels, "marginal")
    images, marks = (np.moveaxis(part.reshape(30, 4, 4, 3), -1, 1) for part in (logits, labels))
    shifts = fitted(images, marks, "marginal")
    np.testing.assert_array_equal(shifts.values, expected.values)
    np.testing.assert_array_equal(
        shifts.predict(images), np.moveaxis(expected.predict(logits).reshape(30, 4, 4, 3), -1, 1)
    )


def test_the_aligner(tmp_path: Path) -> None:
    logits, labels = problem()
    frame, marks = pd.DataFrame(logits, columns=NAMES), pd.DataFrame(labels[:, ::-1], columns=NAMES[::-1])
    aligner = EnergyAligner(estimator="marginal", evidence="held-out", multilabel=True).fit(frame, marks)
    expected = fitted(logits, labels, "marginal")
    np.testing.assert_array_equal(aligner.shifts_.values, expected.values)
    assert aligner.classes_.tolist() == NAMES
    np.testing.assert_array_equal(aligner.predict(frame[NAMES[::-1]]), expected.predict(logits))
    np.testing.assert_array_equal(aligner.predict_proba(logits), expected.predict_proba(logits))
    with pytest.raises(EnergyAlignError, match="partial_fit does not support multilabel"):
        aligner.partial_fit(logits)


def test_the_file_gives_back_every_number(tmp_path: Path) -> None:
    logits, labels = problem()
    shifts = fitted(logits, labels, "auto", class_names=NAMES)
    shifts.save(tmp_path / "shifts.json")
    loaded = MultilabelShifts.load(tmp_path / "shifts.json")
    np.testing.assert_array_equal(loaded.values, shifts.values)
    assert loaded.class_names == tuple(NAMES)
    assert [own.selection for own in loaded.labels] == [own.selection for own in shifts.labels]
    assert isinstance(load_shifts(tmp_path / "shifts.json"), MultilabelShifts)
    with pytest.raises(EnergyAlignError, match=r"shifts\.json: it has shifts of independent labels"):
        Shifts.load(tmp_path / "shifts.json")
    shifts.labels[0].save(tmp_path / "one.json")
    assert isinstance(load_shifts(tmp_path / "one.json"), Shifts)
    with pytest.raises(EnergyAlignError, match="has shifts of classes, not of independent labels"):
        MultilabelShifts.load(tmp_path / "one.json")


def test_labels_that_changed_places_in_the_file(tmp_path: Path) -> None:
    fitted(*problem(), "prior").save(tmp_path / "shifts.json")
    document = json.loads((tmp_path / "shifts.json").read_text())
    document["labels"].reverse()
    (tmp_path / "shifts.json").write_text(json.dumps(document))
    with pytest.raises(EnergyAlignError, match=r"shifts\.json: it does not match its checksum"):
        load_shifts(tmp_path / "shifts.json")


@pytest.mark.parametrize("change", [{"labels": []}, {"labels": 3}, {"version": 2}, {"labels": [{}]}])
def test_files_that_are_none(tmp_path: Path, change: dict[str, Any]) -> None:
    fitted(*problem(), "prior").save(tmp_path / "shifts.json")
    document = json.loads((tmp_path / "shifts.json").read_text())
    changed = document | change
    (tmp_path / "shifts.json").write_text(seal(json.dumps(changed | {"sha256": ""})))
    with pytest.raises(EnergyAlignError, match=r"shifts\.json: "):
        MultilabelShifts.load(tmp_path / "shifts.json")


def test_a_label_of_three_classes_in_the_file(tmp_path: Path) -> None:
    logits, labels = problem()
    fine = fitted(logits, labels, "prior").labels[0]
    three = fit_shifts(Evidence.from_arrays(logits, counts=[3, 2, 1]), estimator="prior")
    (tmp_path / "shifts.json").write_text(dump_labels([fine, three]))
    with pytest.raises(EnergyAlignError, match=r"label 1 must have two shifts, without and with it, got 3\. Save"):
        load_shifts(tmp_path / "shifts.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": np.zeros(500, dtype=int)}, r"labels must have the shape of the logits, \(500, 3\)"),
        ({"labels": np.full((500, 3), 2)}, r"label rain of sample 0 must be 1 \(present\), 0 .* got 2"),
        ({"labels": np.full((500, 3), -100)}, "no sample has a known label for classes rain, fog, wind"),
        ({"counts": [1, 2, 3]}, r"must have shape \(3, 2\), samples without and with each label"),
        ({"counts": [[1, 2], [0, 3], [1, 1]]}, "training counts must be positive; wrong for class fog"),
        ({"class_names": ["rain"]}, "class_names must have 3 entries, one per label, got 1"),
    ],
)
def test_what_is_refused(change: dict[str, Any], message: str) -> None:
    logits, labels = problem()
    with pytest.raises(EnergyAlignError, match=message):
        fitted(**{"logits": logits, "labels": labels, "class_names": NAMES} | change)


def test_a_target_that_is_no_probability_of_each_label() -> None:
    evidence = MultilabelEvidence.from_arrays(*problem())
    for target in ([0.5, 0.5], [0.2, 0.3, 1.0]):
        with pytest.raises(EnergyAlignError, match="with probabilities between 0 and 1"):
            fit_multilabel(evidence, target_prior=target)


def test_doubts_name_the_label() -> None:
    logits, labels = problem()
    labels[:, 1] = 0
    with pytest.warns(UntrustedEstimateWarning, match="label fog: "):
        shifts = fitted(logits, labels, "marginal", class_names=NAMES, counts=[[7, 3], [9, 1], [5, 5]])
    assert any(concern.startswith("label fog: ") for concern in shifts.concerns)
    logits, labels = problem()
    labels[:, 1] = 1 - labels[:, 1]
    with pytest.warns(
        UntrustedEstimateWarning, match="label fog: the raw model is right on .* may be in another order"
    ):
        fitted(logits, labels, "marginal", class_names=NAMES)


def test_what_is_given_per_label_is_matched_by_name() -> None:
    logits, labels = problem()
    counts = pd.DataFrame({"without": [70, 900, 5], "with": [30, 100, 5]}, index=NAMES)
    target = pd.Series([0.2, 0.5, 0.9], index=NAMES)

    def values(counts: Any, target: Any) -> Any:
        evidence = MultilabelEvidence.from_arrays(logits, labels, class_names=NAMES).with_counts(counts)
        return fit_multilabel(evidence, estimator="prior", target_prior=target).values

    expected = values(counts.to_numpy(), target.to_numpy())
    np.testing.assert_array_equal(values(counts[::-1], target[::-1]), expected)
    pairs = {name: tuple(row) for name, row in counts[::-1].T.items()}
    np.testing.assert_array_equal(values(pairs, dict(target[::-1])), expected)
    with pytest.raises(
        EnergyAlignError, match=r"training counts: the classes are \[a, b, c\], but .*\[rain, fog, wind\]"
    ):
        values(counts.set_axis(list("abc")), target)


def test_labels_without_names_have_numbers() -> None:
    logits, labels = problem()
    evidence = MultilabelEvidence.from_arrays(logits, labels, kind="held-out")
    shifts = fit_multilabel(evidence, scoring="f1", minimum_recall={1: 0.9})
    assert np.mean(shifts.predict(logits)[labels[:, 1] == 1, 1]) >= 0.9


def test_the_aims_of_each_label() -> None:
    logits, labels = problem()
    evidence = MultilabelEvidence.from_arrays(logits, labels, kind="held-out", class_names=NAMES)
    shifts = fit_multilabel(evidence, scoring="f1", minimum_recall={"fog": 0.9})
    assert np.mean(shifts.predict(logits)[labels[:, 1] == 1, 1]) >= 0.9
    alone = fit_shifts(Evidence.from_arrays(logits[:, 0], labels[:, 0], kind="held-out"), scoring="f1")
    np.testing.assert_array_equal(shifts.labels[0].values, alone.values)
    with pytest.raises(EnergyAlignError, match="minimum_recall: unknown class 'snow': choose one of rain, fog, wind"):
        fit_multilabel(evidence, minimum_recall={"snow": 0.9})
    np.testing.assert_allclose(
        fitted(logits, labels, "marginal").scaled(0.5).values * 2, fitted(logits, labels, "marginal").values
    )


def test_the_summary_has_the_mean_score_the_shifts_and_the_concerns() -> None:
    logits, labels = problem()
    evidence = MultilabelEvidence.from_arrays(logits, labels, kind="held-out", class_names=NAMES)
    shifts = fit_multilabel(evidence, scoring="f1")
    assert repr(shifts) == (
        "MultilabelShifts(3 labels, estimator='shrunk', scoring='f1', evidence='held-out', "
        f"concerns={len(shifts.concerns)})"
    )
    found = [own.selection for own in shifts.labels]
    raw = np.mean([next(one.score for one in own.candidates if one.estimator == "none") for own in found])
    chosen = np.mean([own.candidates[own.chosen].score for own in found])
    assert shifts.mean_score == pytest.approx((raw, chosen, np.mean([own.gain_error for own in found]), 3))
    lines = shifts.summary().splitlines()
    assert lines[0] == "Shifts of 3 independent labels by shrunk for f1, from 500 held-out samples."
    assert lines[1].startswith(
        f"Cross-fitted f1, mean over the labels: raw {100 * raw:.1f} %, aligned {100 * chosen:.1f}"
    )
    assert lines[2] == f"  {shifts.values[1]:+8.3f} +- {shifts.standard_errors[1]:.3f}  fog"
    worried = replace(shifts, labels=(replace(shifts.labels[0], concerns=("few samples.",)), *shifts.labels[1:]))
    assert worried.summary().splitlines()[-1] == f"Concerns: {worried.concerns[0]}"
    assert "few samples." in worried.concerns[0]
    blind = fit_multilabel(evidence, estimator="prior")
    assert blind.mean_score is None
    assert "Cross-fitted" not in blind.summary()


def test_the_summary_of_costs_has_mean_costs() -> None:
    logits, labels = problem()
    evidence = MultilabelEvidence.from_arrays(logits, labels, kind="held-out", class_names=NAMES)
    shifts = fit_multilabel(evidence, costs=[[0, 1], [5, 0]])
    head, score, *_ = shifts.summary().splitlines()
    assert "independent labels by shrunk for mean cost, from" in head
    raw, chosen, error, _ = shifts.mean_score
    assert score == (
        f"Cross-fitted mean cost, mean over the labels: raw {-raw:.3f}, aligned {-chosen:.3f} (standard error of the "
        f"difference at most {error:.3f})."
    )


DOORS = {
    "fit_multilabel": lambda logits, labels: fit_multilabel(
        MultilabelEvidence.from_arrays(logits, labels), scoring="f1"
    ),
    "aligner": lambda logits, labels: EnergyAligner(multilabel=True, scoring="f1").fit(logits, labels),
    "fit_shifts": lambda logits, labels: fit_shifts(Evidence.from_arrays(logits[:, 2], labels[:, 2]), scoring="f1"),
}


@pytest.mark.parametrize("door", DOORS)
def test_warnings_point_to_the_line_of_the_user(door: str) -> None:
    logits, labels = problem(60)
    with pytest.warns(UntrustedEstimateWarning) as caught:
        DOORS[door](logits, labels)
    assert {warning.filename for warning in caught} == {__file__}
