"""The demo measures what it says, on what it says, and always the same."""

import json
import shutil

import numpy as np
import pytest

from energyalign import FreeEnergy
from energyalign.demo.run import run_demo
from energyalign.train.tensor_file import load_arrays

COUNTS = [124, 80, 51, 33, 21, 14, 9, 5, 3, 2]


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    said = []
    folder = tmp_path_factory.mktemp("demo")
    return folder, run_demo(folder, first_seed=0, say=said.append), said


def rows_of(folder):
    return [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]


def test_rows_hold_every_head_corrector_and_seed_and_the_table_is_their_mean(demo):
    folder, result, _ = demo
    rows = rows_of(folder)
    assert len(rows) == 2 * 5 * 3
    assert len(result.rows) == 2 * 5
    for head, corrector, *cells in result.rows:
        same = [row for row in rows if (row["config"]["head"], row["corrector"]) == (head, corrector)]
        assert sorted(row["seed"] for row in same) == [0, 1, 2]
        for cell, column in zip(cells, ("overall", "many", "medium", "few"), strict=True):
            percents = [100 * row[column] for row in same]
            assert cell == f"{np.mean(percents):.1f} ± {np.std(percents, ddof=1):.1f}"
    assert {tuple(row["counts"]) for row in rows} == {tuple(COUNTS)}


def test_aligning_helps_the_few_and_beats_the_raw_model_behind_both_heads(demo):
    rows = rows_of(demo[0])

    def mean(head, corrector, column):
        same = [row for row in rows if (row["config"]["head"], row["corrector"]) == (head, corrector)]
        return np.mean([row[column] for row in same])

    for head in ("cosine", "linear"):
        for corrector in ("la-post-hoc", "ea-marginal", "ea-auto"):
            assert mean(head, corrector, "overall") > mean(head, "raw", "overall") + 0.03
            assert mean(head, corrector, "few") > mean(head, "raw", "few") + 0.06
    assert mean("cosine", "ea", "few") > mean("cosine", "raw", "few") + 0.06


def test_energies_follow_the_counts_before_and_are_closer_after(demo):
    folder, _, _ = demo
    for row in rows_of(folder):
        if row["corrector"] == "ea" and row["config"]["head"] == "cosine":
            logits = load_arrays(folder / "cosine" / f"seed-{row['seed']}" / "test_logits.safetensors")["logits"]
            raw = FreeEnergy().update(logits).values
            assert np.corrcoef(raw, np.log(COUNTS))[0, 1] > 0.8
            assert (raw + row["shifts"]).std() < raw.std()


def test_it_says_what_was_measured_and_writes_a_page_with_table_and_picture(demo):
    folder, result, said = demo
    assert "500 balanced test images" in result.measured
    assert "124, 80, 51, 33, 21, 14, 9, 5, 3, 2" in said[0]
    assert rows_of(folder)[0]["manifest"][:12] in said[0]
    page = (folder / "report.html").read_text()
    assert "data:image/png;base64," in page
    for line in result.rows:
        for cell in line:
            assert cell in page
    assert {path.name for path in result.files} == {"report.html", "energies.png", "rows.jsonl"}
    assert all(path.exists() for path in result.files)


def test_a_run_that_is_missing_is_trained_again_to_the_same_bytes(demo, tmp_path):
    """As after Ctrl-C: what is finished is kept, the rest is done, and nothing differs."""
    folder, _, _ = demo
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    shutil.rmtree(copy / "linear" / "seed-2")
    for name in ("rows.jsonl", "energies.png", "report.html"):
        (copy / name).unlink()
    run_demo(copy, first_seed=0, say=lambda _: None)
    for name in ("rows.jsonl", "energies.png", "report.html", "linear/seed-2/test_logits.safetensors"):
        assert (copy / name).read_bytes() == (folder / name).read_bytes()
