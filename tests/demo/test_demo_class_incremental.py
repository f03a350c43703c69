"""The class-incremental part reproduces its documented numbers: two of the three seeds in docs/demo.md."""

import numpy as np
import pytest

from energyalign.demo.class_incremental import ClassIncremental, accuracies, ranking
from energyalign.demo.part import all_rows
from energyalign.demo.run import measure

CORRECTORS = ["raw", "logit-adjustment", "ea", "ea-marginal"]


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    part, said = ClassIncremental(range(2)), []
    results = measure(part, tmp_path_factory.mktemp("demo"), said.append)
    return results, part.section(results), said


def test_rows_hold_every_step_corrector_and_seed_of_the_training_that_ea_corrects(demo):
    rows = all_rows(demo[0])
    found = {(row.seed, row.step, row.corrector) for row in rows}
    assert found == {(seed, step, name) for seed in range(2) for step in range(1, 6) for name in CORRECTORS}
    assert len(rows) == len(found)
    assert {(row.learner, row.memory, row.fed_back) for row in rows} == {("distill", "random:40", "ea")}


def test_tables_and_curves_are_means_of_the_rows(demo):
    results, section, _ = demo
    by_step, summary = section.tables
    curves = accuracies(all_rows(results))
    assert list(curves) == CORRECTORS
    for name, line, short in zip(CORRECTORS, by_step.lines, summary.lines, strict=True):
        values = np.array(
            [
                [100 * row.balanced for row in rows if row.corrector == name]  # in the order of the steps
                for rows in results.values()
            ]
        )
        np.testing.assert_allclose(curves[name], values)
        assert line.method == name
        assert [str(cell) for cell in line.cells] == [f"{of.mean():.1f} ± {of.std(ddof=1):.1f}" for of in values.T]
        averages = values[:, 1:].mean(axis=1)
        assert short.method == name
        assert str(short.cells[0]) == f"{averages.mean():.1f} ± {averages.std(ddof=1):.1f}"
    assert [column.title for column in by_step.columns] == ["1", "2", "3", "4", "5"]
    assert summary.columns[0].title == "average"


def test_aligning_beats_the_raw_network_and_gives_old_classes_back(demo):
    rows = [row for row in all_rows(demo[0]) if row.step == 5]

    def mean(corrector, column):
        return np.mean([row.accuracy(column) for row in rows if row.corrector == corrector])

    for corrector in ("logit-adjustment", "ea", "ea-marginal"):
        assert mean(corrector, "balanced") > mean("raw", "balanced") + 0.08
        assert mean(corrector, "old") > mean("raw", "old") + 0.12


def test_it_says_what_was_measured(demo):
    results, section, said = demo
    assert "50 test images of every class seen" in section.paragraphs[0]
    assert "2 seeds (0 to 1)" in section.paragraphs[0]
    assert "5 steps of 2 classes, with a memory of 40" in said[0]
    assert all_rows(results)[0].manifest[:12] in said[0]
    last = {row.corrector: 100 * row.balanced for row in next(iter(results.values())) if row.step == 5}
    told = ", ".join(f"{name} {last[name]:.1f}" for name in CORRECTORS)
    assert said[1] == f"incremental, seed 0, after step 5: {told}"


def test_the_ranking_names_whoever_is_ahead():
    curves = {
        "raw": np.array([[100.0, 50.0, 25.0], [100.0, 60.0, 35.0]]),
        "ea": np.array([[90.0, 75.0, 50.0], [90.0, 75.0, 50.0]]),
        "logit-adjustment": np.array([[80.0, 70.0, 80.0], [80.0, 75.0, 75.0]]),
    }
    assert ranking(curves) == "By average, best first: logit-adjustment 75.0, ea 62.5, raw 42.5."
