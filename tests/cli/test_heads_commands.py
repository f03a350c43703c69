"""`energyalign fit` and `apply` on files with other heads."""

import re

import numpy as np
import pytest
from scipy.special import expit

from energyalign import EnergyAligner, Evidence, Shifts, fit_shifts
from energyalign.core.multilabel import MultilabelShifts


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def one_logit(seed=0):
    rng = np.random.default_rng(seed)
    labels = (rng.random(300) < 0.2).astype(np.int64)
    return 2.0 * labels - 2.0 + rng.normal(size=300), labels


def maps(seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.choice(3, size=(15, 4, 5), p=[0.7, 0.2, 0.1])
    logits = rng.normal(size=(15, 3, 4, 5)) + 2.0 * np.moveaxis(np.eye(3)[labels], -1, 1)
    logits += np.log([0.7, 0.2, 0.1])[:, None, None]
    labels[rng.random(labels.shape) < 0.2] = 255
    return logits, labels


@pytest.mark.parametrize("column", [True, False])
def test_one_logit(folder, run, column):
    scores, labels = one_logit()
    given = scores[:, None] if column else scores
    np.save("scores.npy", given)
    np.save("labels.npy", labels)
    options = ("--labels", "labels.npy", "--evidence", "held-out", "--estimator", "marginal", "--classes", "ham,spam")
    code, out, _ = run("fit", "scores.npy", *options, "--out", "shifts.json", "--report", "fit.html")
    assert code == 0
    assert "spam" in out
    shifts = Shifts.load("shifts.json")
    two = np.column_stack([np.zeros(300), scores])
    expected = fit_shifts(Evidence.from_arrays(two, labels, kind="held-out"), estimator="marginal")
    np.testing.assert_array_equal(shifts.values, expected.values)
    for form in ("logits", "probabilities", "labels"):
        assert run("apply", "scores.npy", "--shifts", "shifts.json", "--as", form, "--out", f"{form}.npy")[0] == 0
    np.testing.assert_array_equal(np.load("logits.npy"), given + (shifts.values[1] - shifts.values[0]))
    np.testing.assert_allclose(np.load("probabilities.npy"), shifts.predict_proba(scores))
    np.testing.assert_array_equal(np.load("labels.npy"), np.array(["ham", "spam"])[shifts.predict(two)])


def test_pixels(folder, run):
    logits, labels = maps()
    np.save("maps.npy", logits)
    np.save("masks.npy", labels)
    options = ("--labels", "masks.npy", "--ignore-index", 255, "--evidence", "held-out", "--report", "fit.html")
    assert run("fit", "maps.npy", *options, "--out", "shifts.json")[0] == 0
    shifts = Shifts.load("shifts.json")
    expected = EnergyAligner(evidence="held-out", ignore_index=255).fit(logits, labels).shifts_
    np.testing.assert_allclose(shifts.values, expected.values, rtol=1e-9)
    assert shifts.n_samples == np.sum(labels != 255)
    assert (shifts.estimator, shifts.strength) == (expected.estimator, pytest.approx(expected.strength))
    assert "fit.html" in {path.name for path in folder.iterdir()}
    for form in ("logits", "probabilities", "labels"):
        assert run("apply", "maps.npy", "--shifts", "shifts.json", "--as", form, "--out", f"{form}.npy")[0] == 0
    np.testing.assert_array_equal(np.load("logits.npy"), shifts.apply(logits))
    np.testing.assert_allclose(np.load("probabilities.npy"), shifts.predict_proba(logits))
    np.testing.assert_array_equal(np.load("labels.npy"), shifts.predict(logits))
    code, _, err = run("apply", "maps.npy", "--shifts", "shifts.json", "--out", "maps.csv")
    assert code == 2
    assert "can only be written to a .npy file" in err


def test_tokens(folder, run):
    logits, labels = maps()
    tokens, tags = np.moveaxis(logits, 1, -1).reshape(15, 20, 3), labels.reshape(15, 20)
    np.save("tokens.npy", tokens)
    np.save("tags.npy", np.where(tags == 255, -100, tags))
    options = ("--estimator", "marginal", "--clusters", "per-class", "--quiet")
    assert run("fit", "tokens.npy", "--labels", "tags.npy", *options, "--out", "shifts.json")[0] == 0
    rows, known = tokens.reshape(-1, 3), tags.reshape(-1) != 255
    expected = fit_shifts(
        Evidence.from_arrays(rows[known], tags.reshape(-1)[known]), estimator="marginal", clusters="per-class"
    )
    np.testing.assert_allclose(Shifts.load("shifts.json").values, expected.values, rtol=1e-9)
    assert run("apply", "tokens.npy", "--shifts", "shifts.json", "--as", "labels", "--out", "out.npy")[0] == 0
    np.testing.assert_array_equal(np.load("out.npy"), expected.predict(tokens))


def test_a_bad_number_is_named_by_its_place_in_the_file(folder, run):
    logits, labels = maps()
    rows, flat = np.moveaxis(logits, 1, -1).reshape(-1, 3), labels.reshape(-1)
    bad = np.flatnonzero(flat != 255)[50]
    rows[bad, 1] = np.nan
    np.save("rows.npy", rows)
    np.save("labels.npy", flat)
    code, _, err = run("fit", "rows.npy", "--labels", "labels.npy", "--ignore-index", 255)
    assert code == 2
    assert f"row {bad} of rows.npy" in err


def test_labels_of_another_shape(folder, run):
    logits, labels = maps()
    np.save("maps.npy", logits)
    np.save("masks.npy", labels[:, :2])
    code, _, err = run("fit", "maps.npy", "--labels", "masks.npy")
    assert code == 2
    assert "masks.npy must have one label, or one-hot row, for each of 300 rows of logits, got shape (15, 2, 5)" in err


def test_one_hot_labels(folder, run):
    logits, labels = maps()
    rows, known = np.moveaxis(logits, 1, -1).reshape(-1, 3), labels.reshape(-1) != 255
    flat = labels.reshape(-1)[known]
    np.save("logits.npy", rows[known])
    given = {"numbers": flat, "hot": np.eye(3)[flat], "several": np.eye(3)[flat] + np.eye(3)[0] > 0}
    options, found = ("--evidence", "held-out", "--estimator", "marginal", "--quiet"), {}
    for name, array in given.items():
        np.save(f"{name}.npy", array)
        found[name] = run("fit", "logits.npy", "--labels", f"{name}.npy", *options, "--out", f"{name}.json")
    assert [code for code, _, _ in found.values()] == [0, 0, 2]
    assert (folder / "hot.json").read_bytes() == (folder / "numbers.json").read_bytes()
    assert "If samples have several labels, give --multilabel." in found["several"][2]


def test_independent_labels(folder, run):
    rng = np.random.default_rng(0)
    labels = (rng.random((300, 3)) < [0.1, 0.3, 0.5]).astype(np.int8)
    logits = 2.0 * labels - 1.5 + rng.normal(size=(300, 3))
    labels[:30, 2] = -1
    counts = np.array([[90, 10], [70, 30], [1, 1]])
    for name, array in (("logits", logits), ("marks", labels), ("counts", counts)):
        np.save(f"{name}.npy", array)
    given = ("logits.npy", "--labels", "marks.npy", "--counts", "counts.npy", "--multilabel", "--ignore-index", -1)
    options = ("--classes", "rain,fog,wind", "--evidence", "held-out", "--estimator", "shrunk", "--jobs", 2)
    code, out, _ = run("fit", *given, *options, "--out", "shifts.json")
    assert code == 0
    assert "fog" in out
    assert "raw balanced accuracy" in out
    shifts = MultilabelShifts.load("shifts.json")
    aligner = EnergyAligner(estimator="shrunk", evidence="held-out", multilabel=True, ignore_index=-1)
    aligner.fit(logits, labels, counts=counts)
    np.testing.assert_allclose(shifts.values, aligner.shifts_.values, rtol=1e-9)
    assert shifts.class_names == ("rain", "fog", "wind")
    for form in ("logits", "probabilities", "labels"):
        assert run("apply", "logits.npy", "--shifts", "shifts.json", "--as", form, "--out", f"{form}_.npy")[0] == 0
    np.testing.assert_array_equal(np.load("logits_.npy"), logits + shifts.values)
    np.testing.assert_allclose(np.load("probabilities_.npy"), expit(logits + shifts.values))
    np.testing.assert_array_equal(np.load("labels_.npy"), logits + shifts.values > 0)
    assert run("apply", "logits.npy", "--shifts", "shifts.json", "--out", "out.csv")[0] == 0
    assert (folder / "out.csv").read_text().startswith("rain,fog,wind\n")

    code, _, err = run("fit", *given, "--target-logits", "logits.npy")
    assert code == 2
    assert "--target-logits cannot be combined with --multilabel" in err
    assert "The column of one label can be fitted alone" in err
    code, _, err = run("fit", "logits.npy", "--labels", "labels_.npy", "--multilabel", "--counts", "logits.npy")
    assert code == 2
    assert "must have shape (3, 2)" in err


def test_the_page_of_independent_labels(folder, run):
    """By hand: rain is found in 1 of 2 samples, and in both with its shift; fog is never missed."""
    logits = np.array([[1.0, 2.0], [-1.0, -1.0], [-3.0, -2.0], [-4.0, -3.0]])
    marks = np.array([[1, 1], [1, 0], [0, 0], [0, 0]])
    np.save("logits.npy", np.tile(logits, (20, 1)))
    np.save("marks.npy", np.tile(marks, (20, 1)))
    np.save("counts.npy", [[88, 12], [50, 50]])  # log odds of about 2, and 0
    given = ("logits.npy", "--labels", "marks.npy", "--multilabel", "--classes", "rain,<i>fog</i>")
    options = ("--counts", "counts.npy", "--estimator", "prior", "--evidence", "held-out")
    assert run("fit", *given, *options, "--report", "fit.html")[0] == 0
    text = (folder / "fit.html").read_text()
    cells = [re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", row) for row in re.findall("<tr>.*?</tr>", text)]
    assert cells[1:] == [
        ["rain", "80", "50.0", "+1.992 ± 0.000", "50.0 → 100.0", "100.0 → 100.0", "66.7 → 100.0"],
        ["&lt;i&gt;fog&lt;/i&gt;", "80", "25.0", "+0.000 ± 0.000", *["100.0 → 100.0"] * 3],
    ]
    assert "recall 75.0 % → 100.0 %, F1 83.3 % → 100.0 %" in text
    assert "data:image/svg+xml;base64," in text
    assert "Cross-fitted" not in text  # the estimator `prior` was requested, so no candidates were compared


def test_the_page_begins_with_the_score_that_was_asked_for(folder, run):
    rng = np.random.default_rng(0)
    labels = (rng.random((300, 2)) < [0.1, 0.3]).astype(np.int8)
    np.save("logits.npy", 2.0 * labels - 1.5 + rng.normal(size=(300, 2)))
    np.save("marks.npy", labels)
    given = ("logits.npy", "--labels", "marks.npy", "--multilabel", "--evidence", "held-out", "--scoring", "f1")
    code, out, _ = run("fit", *given, "--report", "fit.html", "--out", "shifts.json")
    assert code == 0
    shifts = MultilabelShifts.load("shifts.json")
    assert "raw f1" in out
    assert shifts.describe_score()[0] in out
    score = shifts.mean_score
    assert score is not None
    assert f"F1 {100 * score.raw:.1f} % → {100 * score.chosen:.1f} %, mean over" in (folder / "fit.html").read_text()
    code, _, err = run("fit", "logits.npy", "--multilabel", "--report", "fit.html")
    assert code == 2
    assert "--report needs labels" in err
