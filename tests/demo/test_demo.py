"""The demo measures what it says, on what it says, and always the same."""

import json

import numpy as np
import pytest
from sklearn.datasets import load_digits

from energyalign.demo.digits import load_long_tail, long_tail_counts
from energyalign.demo.network import Network
from energyalign.demo.run import run_demo


def test_counts_follow_the_published_formula():
    counts = long_tail_counts()
    assert counts.tolist() == [120, 76, 48, 30, 19, 12, 7, 4, 3, 2]
    assert counts[0] / counts[-1] >= 50


def test_the_cut_is_fixed_by_its_seed_and_holds_no_test_image():
    one, again, other = load_long_tail(0), load_long_tail(0), load_long_tail(1)
    assert one.manifest == again.manifest
    assert one.manifest["sha256"] != other.manifest["sha256"]
    assert one.manifest["test"] == other.manifest["test"]
    assert not set(one.manifest["train"]) & set(one.manifest["test"])
    digits = load_digits()
    np.testing.assert_array_equal(digits.target[one.manifest["train"]], one.train_labels)
    np.testing.assert_array_equal(digits.data[one.manifest["test"]] / 16, one.test_images)
    np.testing.assert_array_equal(np.bincount(one.train_labels), long_tail_counts())
    np.testing.assert_array_equal(np.bincount(one.test_labels), np.full(10, 50))


def test_the_manifest_of_seed_0_does_not_change():
    assert load_long_tail(0).manifest["sha256"].startswith("93903c6c2b50")


def test_the_logits_are_the_networks_own():
    data = load_long_tail(0)
    with pytest.warns(UserWarning, match="Maximum iterations"):
        network = Network((8,), max_iter=3, random_state=0).fit(data.train_images, data.train_labels)
    logits = network.decision_function(data.test_images)
    softmax = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(softmax, network.predict_proba(data.test_images), atol=1e-12)


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    said = []
    folder = tmp_path_factory.mktemp("demo")
    return folder, run_demo(folder, first_seed=0, say=said.append), said


def test_rows_hold_every_method_and_seed_and_the_table_is_their_mean(demo):
    folder, result, _ = demo
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    assert len(rows) == 5 * 5
    for line in result.rows:
        of_method = [row for row in rows if row["method"] == line[0]]
        assert sorted(row["seed"] for row in of_method) == [0, 1, 2, 3, 4]
        for cell, column in zip(line[1:], ("overall", "many", "medium", "few"), strict=True):
            percents = [100 * row[column] for row in of_method]
            assert cell == f"{np.mean(percents):.1f} ± {np.std(percents, ddof=1):.1f}"
        np.testing.assert_allclose(np.mean(of_method[0]["per_class"]), of_method[0]["overall"])


def test_aligning_helps_the_few_and_beats_the_raw_model(demo):
    folder, _, _ = demo
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    mean = {
        (method, column): np.mean([row[column] for row in rows if row["method"] == method])
        for method in {row["method"] for row in rows}
        for column in ("overall", "few")
    }
    for method in (
        "logit adjustment",
        "energy aligning, lse (paper)",
        "energy aligning, marginal",
        "energy aligning, auto",
    ):
        assert mean[method, "overall"] > mean["raw", "overall"] + 0.05
        assert mean[method, "few"] > mean["raw", "few"] + 0.1


def test_energies_follow_the_counts_before_and_are_closer_after(demo):
    folder, _, _ = demo
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    for seed in range(5):
        of_seed = {row["method"]: np.array(row["test_energies"]) for row in rows if row["seed"] == seed}
        raw, aligned = of_seed["raw"], of_seed["energy aligning, lse (paper)"]
        assert np.corrcoef(raw, np.log(long_tail_counts()))[0, 1] > 0.8
        assert aligned.std() < raw.std()


def test_it_says_what_was_measured_and_writes_a_page_with_table_and_picture(demo):
    folder, result, said = demo
    assert "500 balanced held-out images" in result.measured
    assert any("93903c6c2b50" in line for line in said)
    page = (folder / "report.html").read_text()
    assert "data:image/png;base64," in page
    for line in result.rows:
        for cell in line:
            assert cell in page
    assert {path.name for path in result.files} == {"report.html", "energies.png", "rows.jsonl", "manifest.json"}
    assert all(path.exists() for path in result.files)


def test_the_same_seed_gives_the_same_bytes(demo, tmp_path):
    folder, _, _ = demo
    run_demo(tmp_path, first_seed=0, say=lambda _: None)
    for name in ("rows.jsonl", "manifest.json", "energies.png", "report.html"):
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()
