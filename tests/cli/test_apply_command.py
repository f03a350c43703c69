"""`energyalign apply`: logits plus shifts, in every format."""

import csv
import io
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax

from energyalign import Shifts, real_probabilities


@pytest.fixture
def shifts(problem, run):
    run("fit", "logits.npy", "--estimator", "marginal", "--quiet", "--out", "shifts.json")
    return Shifts.load("shifts.json")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_logits_keep_their_type(problem, run, shifts, dtype):
    logits = np.load("logits.npy").astype(dtype)
    np.save("given.npy", logits)
    assert run("apply", "given.npy", "--shifts", "shifts.json", "--out", "out.npy")[0] == 0
    corrected = np.load("out.npy")
    assert corrected.dtype == dtype
    np.testing.assert_array_equal(corrected, logits + shifts.values.astype(dtype))


def test_labels_and_probabilities(problem, run, shifts):
    logits = np.load("logits.npy")
    run("apply", "logits.npy", "--shifts", "shifts.json", "--as", "labels", "--out", "labels_out.csv")
    run("apply", "logits.npy", "--shifts", "shifts.json", "--as", "probabilities", "--out", "proba.npy")
    corrected = logits + shifts.values
    np.testing.assert_array_equal(np.loadtxt("labels_out.csv", dtype=int), corrected.argmax(1))
    expected = np.exp(corrected) / np.exp(corrected).sum(1, keepdims=True)
    np.testing.assert_allclose(np.load("proba.npy"), expected, atol=1e-6)


def test_several_shards_become_one_file(problem, run, shifts):
    logits = np.load("logits.npy")
    np.save("a.npy", logits[:50])
    np.save("b.npy", logits[50:])
    run("apply", "a.npy", "b.npy", "--shifts", "shifts.json", "--out", "out.npy")
    np.testing.assert_allclose(np.load("out.npy"), logits + shifts.values)


def test_a_table_keeps_its_column_names(problem, run):
    pd.DataFrame(np.load("logits.npy"), columns=["x", "y", "z"]).to_csv("t.csv", index=False)
    run("fit", "t.csv", "--estimator", "lse", "--clusters", "per-class", "--quiet", "--out", "named.json")
    run("apply", "t.csv", "--shifts", "named.json", "--out", "out.csv")
    assert list(pd.read_csv("out.csv").columns) == ["x", "y", "z"]


def test_stdin_to_stdout(problem, shell, shifts):
    done = shell("apply", "-", "--shifts", "shifts.json", "--out", "-", input=(problem / "logits.npy").read_bytes())
    assert done.returncode == 0
    np.testing.assert_allclose(np.load(io.BytesIO(done.stdout)), np.load("logits.npy") + shifts.values)


def test_other_class_names_are_refused(problem, run):
    frame = pd.DataFrame(np.load("logits.npy"), columns=["x", "y", "z"])
    frame.to_csv("t.csv", index=False)
    frame.set_axis(["x", "y", "w"], axis=1).to_csv("other.csv", index=False)
    run("fit", "t.csv", "--estimator", "lse", "--clusters", "per-class", "--quiet", "--out", "named.json")
    code, _, err = run("apply", "other.csv", "--shifts", "named.json", "--out", "out.csv")
    assert code == 2
    assert "the classes are [x, y, w], but those of named.json are [x, y, z]: missing z; unknown w" in err


def test_columns_in_another_order_are_matched_by_name(problem, run):
    frame = pd.DataFrame(np.load("logits.npy"), columns=["x", "y", "z"])
    frame.to_csv("t.csv", index=False)
    frame[["y", "z", "x"]].to_csv("turned.csv", index=False)
    run("fit", "t.csv", "--labels", "labels.npy", "--counts", "counts.json", "--quiet", "--out", "named.json")
    for table in ("t", "turned"):
        assert run("apply", f"{table}.csv", "--shifts", "named.json", "--out", f"{table}.out.csv")[0] == 0
    pd.testing.assert_frame_equal(pd.read_csv("t.out.csv"), pd.read_csv("turned.out.csv"))


def test_of_probabilities_the_logarithm_is_taken_and_said_once(problem, run, shifts):
    logits = np.load("logits.npy")
    np.save("p.npy", softmax(logits, axis=1))
    code, _, err = run("apply", "p.npy", "p.npy", "--shifts", "shifts.json", "--as", "labels", "--out", "out.npy")
    assert code == 0
    assert err.count("their logarithms were taken as logits") == 1
    np.testing.assert_array_equal(np.load("out.npy"), np.tile(shifts.predict(logits), 2))


def test_a_strength_multiplies_the_shifts(problem, run):
    assert run("fit", "logits.npy", "--counts", "counts.json", "--estimator", "prior", "--out", "shifts.json")[0] == 0
    logits, shifts = np.load("logits.npy"), Shifts.load("shifts.json")
    for strength in (0.0, 0.5):
        given = ("apply", "logits.npy", "--shifts", "shifts.json", "--strength", str(strength), "--out", "half.npy")
        assert run(*given)[0] == 0
        np.testing.assert_allclose(np.load("half.npy"), logits + strength * shifts.values, rtol=1e-6)


@pytest.mark.parametrize("names", [["cat", "a, b", "bée"], ["10", "2", "33"]])
def test_labels_are_names_if_there_are_names(problem, run, shifts, names):
    logits = np.load("logits.npy")
    replace(shifts, class_names=tuple(names)).save("named.json")
    for out in ("labels.csv", "labels.npy"):
        assert run("apply", "logits.npy", "--shifts", "named.json", "--as", "labels", "--out", out)[0] == 0
    wanted = np.array(names)[shifts.predict(logits)]
    np.testing.assert_array_equal(np.load("labels.npy"), wanted)
    with open("labels.csv", encoding="utf-8", newline="") as stream:
        assert [row for (row,) in csv.reader(stream)] == wanted.tolist()


def test_labels_of_a_table_are_the_names_of_its_columns(problem, run, shifts):
    frame = pd.DataFrame(np.load("logits.npy"), columns=["x", "y", "z"])
    frame.to_csv("t.csv", index=False)
    assert run("apply", "t.csv", "--shifts", "shifts.json", "--as", "labels", "--out", "out.npy")[0] == 0
    np.testing.assert_array_equal(np.load("out.npy"), np.array(["x", "y", "z"])[shifts.predict(frame.to_numpy())])


def test_names_that_are_numbers_from_zero_are_numbers(problem, run, shifts):
    replace(shifts, class_names=("0", "1", "2")).save("named.json")
    assert run("apply", "logits.npy", "--shifts", "named.json", "--as", "labels", "--out", "out.npy")[0] == 0
    labels = np.load("out.npy")
    assert labels.dtype == np.int64
    np.testing.assert_array_equal(labels, shifts.predict(np.load("logits.npy")))


def test_real_frequencies_of_probabilities_as_the_page_says(problem, run):
    raw = softmax(np.load("logits.npy"), axis=1)
    np.save("scores.npy", raw)
    (problem / "trained_on.json").write_text("[1, 1, 1]")
    (problem / "real.json").write_text('{"2": 1, "0": 90, "1": 9}')
    code, _, _ = run(
        "fit", "scores.npy", "--estimator", "prior", "--clusters", "per-class", "--counts", "trained_on.json",
        "--target-prior", "real.json", "--out", "shifts.json",
    )  # fmt: skip
    assert code == 0
    assert run("apply", "scores.npy", "--shifts", "shifts.json", "--as", "probabilities", "--out", "real.npy")[0] == 0
    expected = real_probabilities(raw, trained_on=[1, 1, 1], real=[90, 9, 1])
    np.testing.assert_allclose(np.load("real.npy"), expected, atol=1e-5)


def test_strength_0_is_the_raw_model_whatever_the_target(problem, run):
    given = ("--labels", "labels.npy", "--estimator", "marginal", "--target-prior", "counts.json")
    assert run("fit", "logits.npy", *given, "--out", "aimed.json")[0] == 0
    assert np.any(Shifts.load("aimed.json").values)
    assert run("apply", "logits.npy", "--shifts", "aimed.json", "--strength", "0", "--out", "same.npy")[0] == 0
    np.testing.assert_array_equal(np.load("same.npy"), np.load("logits.npy"))
