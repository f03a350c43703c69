"""`energyalign fit`: the same numbers as the library, from every kind of source."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import log_softmax

from energyalign import Evidence, Shifts, fit_shifts

COUNTS = [400, 90, 12]


def library_shifts(logits, labels=None, **options):
    evidence = Evidence.from_arrays(logits, labels, counts=COUNTS, kind="held-out")
    return fit_shifts(evidence, **options).values


@pytest.mark.parametrize("estimator", ["lse", "marginal", "prior", "none", "auto"])
@pytest.mark.parametrize("clusters", ["auto", "per-class", "monotone", "2"])
def test_the_file_holds_what_the_library_computes(problem, run, estimator, clusters):
    logits, labels = np.load("logits.npy"), np.load("labels.npy")
    code, _, _ = run(
        "fit", "logits.npy", "--labels", "labels.npy", "--counts", "counts.json", "--evidence", "held-out",
        "--estimator", estimator, "--clusters", clusters, "--out", "shifts.json",
    )  # fmt: skip
    assert code == 0
    expected = library_shifts(logits, labels, estimator=estimator, clusters=clusters)
    np.testing.assert_allclose(Shifts.load("shifts.json").values, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("estimator", "assumed"), [("marginal", True), ("prior", False)])
def test_what_is_assumed_without_labels_is_said(problem, run, estimator, assumed):
    given = ("fit", "logits.npy", "--counts", "counts.json", "--estimator", estimator)
    sentence = "No labels given (--labels): the samples are assumed to be class-balanced."
    assert (sentence in run(*given)[1]) == assumed
    assert sentence not in run(*given, "--labels", "labels.npy")[1]


@pytest.mark.parametrize("form", ["npy", "npz", "csv", "parquet", "shards"])
def test_every_format_gives_the_same_shifts(problem, run, form):
    logits, labels = np.load("logits.npy"), np.load("labels.npy")
    sources = [f"given.{form}"]
    if form == "npy":
        np.save("given.npy", logits)
    elif form == "npz":
        np.savez_compressed("given.npz", logits=logits)
    elif form == "shards":
        sources = [f"part{i}.npy" for i in range(7)]
        for source, part in zip(sources, np.array_split(logits, 7), strict=True):
            np.save(source, part)
    else:
        frame = pd.DataFrame(logits, columns=["a", "b", "c"])
        frame.to_csv("given.csv", index=False) if form == "csv" else frame.to_parquet("given.parquet")
    code, _, _ = run(
        "fit", *sources, "--labels", "labels.npy", "--counts", "counts.json", "--estimator", "lse",
        "--clusters", "per-class", "--out", "shifts.json",
    )  # fmt: skip
    assert code == 0
    expected = library_shifts(logits, labels, estimator="lse", clusters="per-class")
    np.testing.assert_allclose(Shifts.load("shifts.json").values, expected, rtol=1e-9)


def test_a_label_column_and_class_names_are_taken_from_the_table(problem, run):
    names = ["cat", "dog", "owl"]
    frame = pd.DataFrame(np.load("logits.npy"), columns=names)
    frame["label"] = np.array(names)[np.load("labels.npy")]
    frame.to_csv("scored.csv", index=False)
    # Counts in another order: they are matched by name.
    (problem / "named.json").write_text(json.dumps({"owl": 12, "cat": 400, "dog": 90}))
    code, out, _ = run("fit", "scored.csv", "--counts", "named.json", "--estimator", "prior", "--out", "shifts.json")
    shifts = Shifts.load("shifts.json")
    assert code == 0
    assert shifts.class_names == ("cat", "dog", "owl")
    np.testing.assert_allclose(shifts.values, np.log(12) - np.log(COUNTS))
    assert "owl" in out


def test_it_prints_each_class_and_the_accuracies_before_and_after(problem, run):
    logits, labels = np.load("logits.npy"), np.load("labels.npy")
    code, out, err = run(
        "fit", "logits.npy", "--labels", "labels.npy", "--counts", "counts.json", "--evidence", "held-out",
        "--estimator", "marginal", "--clusters", "per-class", "--out", "shifts.json",
    )  # fmt: skip
    shifts = Shifts.load("shifts.json")
    before = 100 * np.mean(logits.argmax(1) == labels)
    after = 100 * np.mean((logits + shifts.values).argmax(1) == labels)
    assert code == 0
    assert err == ""
    assert after > before + 5
    for number in (f"{before:.1f}", f"{after:.1f}", *(f"{value:+.3f}" for value in shifts.values)):
        assert number in out
    for count in COUNTS:
        assert f"{count}" in out
    assert "many" in out
    assert "fitted on these samples" in out


def test_auto_prints_what_it_compared(problem, run):
    _, out, _ = run("fit", "logits.npy", "--labels", "labels.npy", "--counts", "counts.json", "--evidence", "held-out")
    assert "Candidates" in out
    for name in ("none", "shrunk", "per-class", "strength"):
        assert name in out
    assert "The shifts were not saved" in out


def test_untrusted_estimates_are_warned_of_with_the_class_and_the_remedy(problem, run):
    logits = np.load("logits.npy")
    logits[5, 2] += 100  # one sample now carries class 2
    np.save("logits.npy", logits)
    code, _, err = run("fit", "logits.npy", "--estimator", "lse", "--clusters", "per-class", "--out", "s.json")
    assert code == 0
    assert "warning" in err
    assert "effective samples (2;" in err
    assert "estimator 'marginal'" in err
    assert any("effective samples" in concern for concern in Shifts.load("s.json").concerns)


def test_many_classes_are_cut_in_the_middle_and_clusters_are_summed_up(problem, run):
    rng = np.random.default_rng(1)
    np.save("wide.npy", rng.normal(size=(300, 100)))
    (problem / "wide.json").write_text(json.dumps(list(range(200, 100, -1))))
    _, alone, _ = run("fit", "wide.npy", "--counts", "wide.json", "--estimator", "lse", "--clusters", "per-class")
    _, shared, _ = run("fit", "wide.npy", "--counts", "wide.json", "--estimator", "lse", "--clusters", "4")
    assert "76 more" in alone
    assert shared.count("cluster of 25") == 4
    assert "anchor" in shared


def test_target_prior_is_added(problem, run):
    (problem / "target.json").write_text("[0.2, 0.3, 0.5]")
    common = ("fit", "logits.npy", "--estimator", "lse", "--clusters", "per-class", "--out")
    run(*common, "uniform.json")
    run(*common, "aimed.json", "--target-prior", "target.json")
    difference = Shifts.load("aimed.json").values - Shifts.load("uniform.json").values
    np.testing.assert_allclose(difference, np.log([0.6, 0.9, 1.5]), atol=1e-12)


def test_target_prior_is_estimated_from_unlabelled_logits(problem, run):
    rng = np.random.default_rng(2)
    truth = np.array([0.1, 0.2, 0.7])
    labels = rng.choice(3, size=20_000, p=truth)
    # Logits of a calibrated model: class-conditional unit normals at 1.5 along each axis, plus the training prior.
    points = rng.normal(size=(20_000, 3)) + 1.5 * np.eye(3)[labels]
    np.save("target.npy", 1.5 * points + np.log(COUNTS))
    code, _, _ = run("fit", "logits.npy", "--counts", "counts.json", "--estimator", "prior",
                     "--target-logits", "target.npy", "--out", "aimed.json")  # fmt: skip
    assert code == 0
    np.testing.assert_allclose(Shifts.load("aimed.json").target_prior, truth, atol=0.02)


def test_old_and_new_classes_share_two_shifts(problem, run):
    run("fit", "logits.npy", "--estimator", "lse", "--clusters", "old:2", "--out", "shifts.json")
    shifts = Shifts.load("shifts.json")
    assert shifts.clusters.assignment == (0, 0, 1)
    assert shifts.values[0] == shifts.values[1] == 0.0
    assert shifts.values[2] != 0.0


def test_clusters_from_a_file(problem, run):
    (problem / "groups.json").write_text("[1, 0, 1]")
    run("fit", "logits.npy", "--estimator", "lse", "--clusters", "groups.json", "--out", "shifts.json")
    assert Shifts.load("shifts.json").clusters.assignment == (1, 0, 1)


def test_stdin_to_stdout(problem, shell):
    done = shell("fit", "-", "--estimator", "lse", "--clusters", "per-class", "--out", "-",
                 input=(problem / "logits.npy").read_bytes())  # fmt: skip
    assert done.returncode == 0
    data = json.loads(done.stdout)  # nothing but JSON there
    expected = library_shifts(np.load("logits.npy"), estimator="lse", clusters="per-class")
    anchored = expected - expected[0]  # without counts the anchor is class 0
    np.testing.assert_allclose([row["shift"] for row in data["classes"]], anchored, atol=1e-12)
    assert b"energy before" in done.stderr


def test_quiet_prints_nothing(problem, run):
    assert run("fit", "logits.npy", "--estimator", "marginal", "--quiet", "--out", "s.json") == (0, "", "")


def test_the_same_command_writes_the_same_bytes(problem, run):
    arguments = ("fit", "logits.npy", "--labels", "labels.npy", "--counts", "counts.json", "--out")
    run(*arguments, "one.json")
    run(*arguments, "two.json")
    assert (problem / "one.json").read_bytes() == (problem / "two.json").read_bytes()


_UNDER_A_LIMIT = """
import resource, sys
limit = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
from energyalign.cli.main import main
sys.exit(main())
"""


def test_a_file_larger_than_the_memory_allowed_gives_the_same_shifts(problem, shell, tmp_path):
    rng = np.random.default_rng(3)
    pattern = (rng.normal(size=(1000, 50)) + np.eye(50)[np.arange(1000) % 50]).astype(np.float32)
    repeats = 3000  # 600 MB
    labels = np.tile(np.arange(1000) % 50, repeats)
    header = np.lib.format.header_data_from_array_1_0(pattern) | {"shape": (1000 * repeats, 50)}
    with open("large.npy", "wb") as stream:
        np.lib.format.write_array_header_1_0(stream, header)
        for _ in range(repeats):
            stream.write(pattern.tobytes())
    np.save("large_labels.npy", labels)
    limit = 350 * 2**20
    assert (tmp_path / "large.npy").stat().st_size > limit
    done = subprocess.run(
        [sys.executable, "-c", _UNDER_A_LIMIT, str(limit), "fit", "large.npy", "--labels", "large_labels.npy",
         "--estimator", "lse", "--clusters", "per-class", "--quiet", "--out", "large.json"],
        capture_output=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    evidence = Evidence.from_arrays(pattern, labels[:1000])
    expected = fit_shifts(evidence, estimator="lse", clusters="per-class")
    found = Shifts.load("large.json")
    np.testing.assert_allclose(found.values, expected.values, atol=1e-6)
    np.testing.assert_allclose(found.effective_samples, repeats * expected.effective_samples, rtol=1e-6)
    # Below this limit, reading the whole file fails.
    whole = subprocess.run(
        [sys.executable, "-c", "import resource, sys, numpy; limit = int(sys.argv[1]);"
         "resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)); numpy.load('large.npy')", str(limit)],
        capture_output=True, timeout=300, check=False,
    )  # fmt: skip
    assert whole.returncode != 0
    assert b"MemoryError" in whole.stderr


def test_target_logits_of_classes_in_another_order_are_matched_by_name(problem, run):
    frame = pd.DataFrame(np.load("logits.npy"), columns=["a", "b", "c"])
    frame.to_csv("given.csv", index=False)
    frame[["b", "c", "a"]].to_csv("turned.csv", index=False)
    for target in ("given", "turned"):
        command = ("fit", "given.csv", "--estimator", "marginal", "--target-logits", f"{target}.csv", "--quiet")
        assert run(*command, "--out", f"{target}.json")[0] == 0
    given, turned = Shifts.load("given.json"), Shifts.load("turned.json")
    np.testing.assert_allclose(turned.values, given.values, atol=1e-6)
    frame.set_axis(["b", "c", "d"], axis=1).to_csv("other.csv", index=False)
    code, _, err = run("fit", "given.csv", "--target-logits", "other.csv", "--out", "s.json")
    assert code == 2
    assert "other.csv: the classes are [b, c, d], but those of given.csv are [a, b, c]" in err
    assert not (problem / "s.json").exists()


def test_of_probabilities_the_logarithm_is_taken_and_said(problem, run):
    logits = np.load("logits.npy")
    np.save("p.npy", np.exp(log_softmax(logits, axis=1)).round(4))
    command = ("--labels", "labels.npy", "--counts", "counts.json", "--evidence", "held-out", "--quiet")
    run("fit", "logits.npy", *command, "--out", "logits.json")
    code, _, err = run("fit", "p.npy", *command, "--out", "p.json")
    assert code == 0
    assert "their logarithms were taken as logits" in err
    np.testing.assert_allclose(Shifts.load("p.json").values, Shifts.load("logits.json").values, atol=0.05)


class TestNames:
    """A counts.json written by pandas is sorted by frequency: its keys count, not its order."""

    options = ("--labels", "labels.npy", "--estimator", "prior", "--clusters", "per-class", "--quiet")

    def counts_of(self, run, *arguments):
        code, _, err = run("fit", *arguments, *self.options, "--out", "s.json")
        assert code == 0, err
        return Shifts.load("s.json").counts.tolist()

    def test_counts_by_class_number(self, problem, run):
        (problem / "c.json").write_text(json.dumps(pd.Series([2] * 9 + [0] * 5 + [1] * 2).value_counts().to_dict()))
        assert self.counts_of(run, "logits.npy", "--counts", "c.json") == [5, 2, 9]

    def test_counts_by_name(self, problem, run):
        (problem / "c.json").write_text(json.dumps({"c": 9, "a": 5, "b": 2}))
        pd.DataFrame(np.load("logits.npy"), columns=list("abc")).to_csv("t.csv", index=False)
        assert self.counts_of(run, "t.csv", "--counts", "c.json") == [5, 2, 9]
        assert self.counts_of(run, "logits.npy", "--classes", "c,a,b", "--counts", "c.json") == [9, 5, 2]

    def test_names_without_an_order_are_refused(self, problem, run):
        (problem / "c.json").write_text(json.dumps({"c": 9, "a": 5, "b": 2}))
        code, _, err = run("fit", "logits.npy", "--counts", "c.json")
        assert code == 2
        assert "c.json: the classes are [c, a, b], in no sorted order" in err
        assert "--classes NAMES" in err

    def test_names_of_other_classes_are_refused_with_both_lists(self, problem, run):
        (problem / "c.json").write_text(json.dumps({"c": 9, "a": 5, "x": 2}))
        code, _, err = run("fit", "logits.npy", "--classes", "a,b,c", "--counts", "c.json")
        assert code == 2
        assert "c.json: the classes are [c, a, x], but the columns of the logits are [a, b, c]" in err
        assert "missing b; unknown x" in err

    @pytest.mark.usefixtures("problem")
    def test_labels_by_name_with_a_header(self, run):
        names = np.array(["a", "b", "c"])[np.load("labels.npy")]
        pd.Series(names).to_csv("labels.csv", index=False)  # its header is 0
        run("fit", "logits.npy", "--labels", "labels.npy", "--counts", "counts.json", "--quiet", "--out", "one.json")
        code, _, err = run(
            "fit", "logits.npy", "--classes", "a,b,c", "--labels", "labels.csv", "--counts", "counts.json",
            "--quiet", "--out", "other.json",
        )  # fmt: skip
        assert code == 0, err
        assert Shifts.load("one.json").values.tolist() == Shifts.load("other.json").values.tolist()
        assert Shifts.load("other.json").class_names == ("a", "b", "c")

    @pytest.mark.usefixtures("problem")
    def test_columns_that_have_names_are_not_named_again(self, run):
        pd.DataFrame(np.load("logits.npy"), columns=list("abc")).to_csv("t.csv", index=False)
        code, _, err = run("fit", "t.csv", "--classes", "b,a,c")
        assert code == 2
        assert "--classes must name the 3 columns of t.csv [a, b, c], got 3 names [b, a, c]" in err

    @pytest.mark.usefixtures("problem")
    def test_columns_in_another_order_are_noticed(self, run):
        np.save("turned.npy", np.load("logits.npy")[:, [2, 0, 1]] - np.log([12, 400, 90]))
        _, _, err = run("fit", "turned.npy", "--labels", "labels.npy", "--evidence", "held-out", "--quiet")
        assert "the columns of the logits may be in another order than the labels. In the order [2, 0, 1] it" in err


def test_the_key_of_an_archive_serves_the_target_too(problem, run):
    logits = np.load("logits.npy")
    np.savez("given.npz", wanted=logits, other=logits)
    command = ("fit", "given.npz", "--key", "wanted", "--estimator", "lse", "--clusters", "per-class")
    assert run(*command, "--target-logits", "given.npz", "--quiet")[0] == 0


_PEAK = """
import sys
from pathlib import Path
from energyalign.cli.main import main
code = main(sys.argv[1:])
print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))
sys.exit(code)
"""  # the rusage of a process starts at its parent's


def test_memory_does_not_grow_with_the_number_of_unlabelled_rows(problem):
    def peak(n_rows):
        with open("rows.npy", "wb") as stream:
            np.lib.format.write_array_header_1_0(stream, {"descr": "<f2", "fortran_order": False, "shape": (n_rows, 2)})
            stream.truncate(stream.tell() + 4 * n_rows)
        command = ["fit", "rows.npy", "--estimator", "lse", "--clusters", "per-class", "--quiet"]
        done = subprocess.run([sys.executable, "-c", _PEAK, *command], capture_output=True, check=True, timeout=300)
        return int(done.stdout)  # KiB

    # Both files have many blocks; how many are in memory at once changes the peak by up to 80,000 KiB. The other
    # 100 million numbers would take 195,000 KiB as stored, and four times as much in double precision.
    assert peak(60_000_000) < peak(10_000_000) + 150_000


def test_the_result_is_saved_though_nobody_reads_the_tables(problem):
    command = f"{sys.executable} -m energyalign.cli.main fit logits.npy --estimator lse --out s.json | true"
    subprocess.run(command, shell=True, check=False, timeout=120, capture_output=True)
    assert Shifts.load("s.json").n_classes == 3


@pytest.mark.usefixtures("problem")
class TestObjectives:
    given = ("fit", "logits.npy", "--labels", "labels.npy", "--counts", "counts.json", "--evidence", "held-out")

    def test_a_score_by_name(self, run):
        assert run(*self.given, "--scoring", "f1_macro", "--out", "shifts.json")[0] == 0
        shifts = Shifts.load("shifts.json")
        assert shifts.scoring == "f1_macro"
        expected = library_shifts(np.load("logits.npy"), np.load("labels.npy"), scoring="f1_macro")
        np.testing.assert_allclose(shifts.values, expected, rtol=1e-12, atol=1e-12)

    def test_costs_from_a_file(self, run):
        costs = [[0, 1, 1], [1, 0, 1], [9, 9, 0]]
        with open("costs.json", "w") as file:
            json.dump(costs, file)
        code, out, _ = run(*self.given, "--costs", "costs.json", "--out", "shifts.json")
        assert code == 0
        assert ", for mean cost." in out
        candidates = out.partition("Candidates")[2]
        assert "%" not in candidates
        selection = Shifts.load("shifts.json").selection
        raw, chosen = selection.raw_and_chosen
        assert raw < chosen < 0
        assert f" {-raw:.3f} " in candidates
        change = f"({-selection.gain:+.4f} +- {selection.gain_error:.4f})"
        assert f"Chosen: cross-fitted mean cost: raw {-raw:.4f}, aligned " in candidates
        assert f", chosen {-chosen:.4f} {change} at position" in " ".join(candidates.split())
        expected = library_shifts(np.load("logits.npy"), np.load("labels.npy"), costs=costs)
        np.testing.assert_allclose(Shifts.load("shifts.json").values, expected, rtol=1e-12, atol=1e-12)

    def test_a_recall_that_must_be_reached(self, run):
        code, out, _ = run(*self.given, "--minimum-recall", "2=0.7", "--out", "shifts.json")
        assert code == 0
        assert "(minimum 0.7)" in " ".join(out.split())

    @pytest.mark.parametrize(
        ("options", "message"),
        [(("--scoring", "f1_marco"), "unknown scoring 'f1_marco'"),
         (("--minimum-recall", "2"), "must be CLASS=NUMBER, such as fraud=0.8, got '2'"),
         (("--minimum-recall", "fraud=0.8"), "unknown class 'fraud': choose one of"),
         (("--costs", "missing.json"), "cannot read costs from missing.json"),
         (("--costs", "dict.json"), "cannot read costs from dict.json: costs must be 3 rows of 3 numbers"),
         (("--costs", "ragged.json"), "cannot read costs from ragged.json: costs must be 3 rows of 3 numbers"),
         (("--costs", "small.json"), "cannot read costs from small.json: costs must have shape (3, 3), got (2, 2)"),
         (("--target-logits", "missing.npy", "--scoring", "f1_macro"), "--target-logits needs the default --scoring"),
         (("--target-logits", "missing.npy", "--costs", "small.json"), "--target-logits needs the default --scoring")],
    )  # fmt: skip
    def test_what_is_wrong_is_said(self, run, options, message):
        for name, text in (("dict", '{"a": 1}'), ("ragged", "[[0, 1], [2]]"), ("small", "[[0, 1], [2, 0]]")):
            Path(f"{name}.json").write_text(text)
        code, _, err = run(*self.given, *options, "--out", "shifts.json")
        assert code == 2
        assert message in " ".join(err.split())
