"""Paired tests by hand and by simulation; pairs of rows of stored runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_up_run import made_up_run

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.row import Settings
from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.comparison import comparison_table, pairs_between, pairs_within
from energyalign.report.paired import bootstrap, mcnemar, paired_t
from energyalign.report.tables import Cell

NAMES = ["cat", "dog", "eel", "fox"]


def right(*parts: tuple[int, int, int]) -> list[np.ndarray]:
    """Return who is right, from parts (number of samples, first right, second right)."""
    return [np.repeat([part[k] for part in parts], [part[0] for part in parts]).astype(bool) for k in (1, 2)]


@pytest.fixture
def runs(tmp_path: Path) -> list[StoredRun]:
    """Make two seeds of one training, on the same images."""
    made = [made_up_run(tmp_path / f"seed-{seed}", NAMES, per_class=(9, 5, 5, 3), seed=seed) for seed in (0, 1)]
    assert not made[0].rows[0].has_balanced_test
    return made


def test_mcnemar_by_hand() -> None:
    # 1 against 7 of the 8 samples that differ: 2 x (1 + 8) / 2^8.
    assert mcnemar(*right((90, 1, 1), (1, 1, 0), (7, 0, 1), (3, 0, 0))) == pytest.approx(18 / 256)
    assert mcnemar(*right((7, 1, 0), (1, 0, 1))) == pytest.approx(18 / 256)
    assert mcnemar(*right((5, 1, 0))) == pytest.approx(2 / 32)
    assert mcnemar(*right((4, 1, 0), (4, 0, 1))) == 1
    assert mcnemar(*right((9, 1, 1))) == 1


def test_bootstrap_by_hand() -> None:
    labels = np.repeat([0, 1], [100, 25])
    gains = np.concatenate([np.repeat([1.0, -1.0, 0.0], [20, 10, 70]), np.repeat([1.0, 0.0], [5, 20])])
    gain = bootstrap(labels, gains)
    assert gain.difference == pytest.approx((0.1 + 0.2) / 2)
    # Variances of the gain within classes: 0.3 - 0.1^2 and 0.2 - 0.2^2.
    error = (0.29 / 100 + 0.16 / 25) ** 0.5 / 2
    assert gain.error == pytest.approx(error, rel=0.05)
    assert (gain.low, gain.high) == pytest.approx((0.15 - 1.96 * error, 0.15 + 1.96 * error), abs=0.01)
    assert gain == bootstrap(labels, gains)  # the same whenever it is asked for
    assert bootstrap(labels, np.zeros(125)) == (0, 0, 0, 0)


def test_the_interval_of_the_bootstrap_covers_as_often_as_it_says() -> None:
    random = np.random.default_rng(0)
    labels, truth = np.repeat([0, 1, 2], [120, 60, 40]), np.array([0.05, 0.1, -0.1])
    covered = 0
    for _ in range(200):
        gains = random.choice([1.0, 0.0, -1.0], size=len(labels))  # gains with mean 0, shifted by the true gain
        moved = random.random(len(labels)) < 2 / 3
        gains[moved] = random.random(np.count_nonzero(moved)) < 1.5 * np.abs(truth[labels[moved]])
        gains[moved] *= np.sign(truth[labels[moved]])
        gain = bootstrap(labels, gains)
        covered += gain.low <= truth.mean() <= gain.high
    assert 0.90 <= covered / 200 <= 0.99


def test_paired_t_by_hand() -> None:
    gain = paired_t([0.01, 0.02, 0.06])
    assert gain.difference == pytest.approx(0.03)
    assert gain.error == pytest.approx(np.std([1, 2, 6], ddof=1) / 100 / 3**0.5)
    assert gain.high - gain.difference == pytest.approx(4.302653 * gain.error)  # of two degrees of freedom
    assert gain.difference - gain.low == pytest.approx(4.302653 * gain.error)


def test_rows_of_one_training(runs: list[StoredRun]) -> None:
    table = comparison_table(pairs_within(runs, ["raw", "ea"]))
    assert [line.method for line in table.lines] == [
        "raw to ea, seed 0", "raw to ea, seed 1", "raw to ea, all seeds", "raw to ea, over seeds",
    ]  # fmt: skip
    balanced = np.array([[row.balanced for row in run.rows] for run in runs])
    means = [[cell.mean for cell in line.cells] for line in table.lines]
    for k, run in enumerate(runs):
        labels = run.outputs().labels
        one, other = (run.predictions(row) == labels for row in run.rows)
        assert means[k][:3] == pytest.approx([*(100 * balanced[k]), 100 * np.diff(balanced[k])[0]])
        assert means[k][6:] == [np.sum(one & ~other), np.sum(other & ~one), mcnemar(one, other)]
    difference = 100 * np.diff(balanced.mean(axis=0))[0]
    assert [line[2] for line in means[2:]] == pytest.approx([difference, difference])
    assert means[2][6:] == means[3][6:] == [None, None, None]
    assert means[3][3] == pytest.approx(100 * paired_t(np.diff(balanced, axis=1)[:, 0].tolist()).error)
    text = table.render("terminal")
    assert max(map(len, text.splitlines()[:-8])) <= 100
    assert "McNemar" in text
    assert "2,000 resamples, seed 0" in text
    assert pairs_within(runs) == pairs_within(runs, ["raw", "ea"])  # raw against the rest is the default


def test_csv_has_plain_numbers_and_small_p_values(runs: list[StoredRun]) -> None:
    table = comparison_table(pairs_within(runs))
    assert "np." not in table.render("csv")
    assert all(type(cell.mean) in (int, float, type(None)) for line in table.lines for cell in line.cells)
    (line, *_) = table.lines
    small = replace(table, lines=(replace(line, cells=(*line.cells[:-1], Cell(5.1234e-15))),))
    assert small.render("csv").splitlines()[-1].split(",")[-5:] == ["5.123e-15", "", "", "False", "False"]


def test_seeds_that_lack_a_row_are_left_out(runs: list[StoredRun]) -> None:
    part = [runs[0], replace(runs[1], rows=runs[1].rows[:1])]
    (pair,) = pairs_within(part, ["raw", "ea"])
    assert [row.seed for _, row in pair.one] == [row.seed for _, row in pair.other] == [0]
    with pytest.raises(EnergyAlignError, match="expected a seed with rows of raw and wa, got rows of raw, ea"):
        pairs_within(runs, ["raw", "wa"])


def other_training(run: StoredRun) -> StoredRun:
    config = Settings({**run.config.values, "head": "linear"})
    return StoredRun(run.path, config, [replace(row, config=config) for row in run.rows])


def with_settings(run: StoredRun, **settings: object) -> StoredRun:
    config = Settings({**run.config.values, **settings})
    return StoredRun(run.path, config, [replace(row, config=config, cell=config.name) for row in run.rows])


def test_sides_that_differ_in_settings_are_told_apart(runs: list[StoredRun]) -> None:
    one = [with_settings(run) for run in runs]
    recipe = {**runs[0].config.values["recipe"], "epochs": 2}
    other = [with_settings(run, name="digits-lt-20", imbalance=20.0, recipe=recipe) for run in runs]
    table = comparison_table(pairs_between(one, other, [("raw", "raw")]))
    assert table.title == "B on digits-lt-20 against A on digits-lt-50"
    assert table.lines[0].method == "ce, cosine head, digits-lt-50 + raw to ce, cosine head, digits-lt-20 + raw, seed 0"
    epochs = one[0].config.epochs
    assert table.notes[-1] == (
        f"A and B also differ in settings: recipe.epochs is {epochs} and 2; imbalance is 50 and 20."
    )
    longer = comparison_table(pairs_between(one, [with_settings(run, recipe=recipe) for run in runs], [("raw", "ea")]))
    assert longer.title == "B against A on digits-lt-50"
    assert longer.lines[0].method.startswith(
        f"ce, cosine head, {epochs} epochs + raw to ce, cosine head, 2 epochs + ea"
    )


def test_one_seed_has_no_note_on_several(runs: list[StoredRun]) -> None:
    assert any("Over seeds" in note for note in comparison_table(pairs_within(runs)).notes)
    assert not any("seeds" in note for note in comparison_table(pairs_within(runs[:1])).notes)


def test_two_trainings(runs: list[StoredRun], tmp_path: Path) -> None:
    linear = [other_training(run) for run in runs]
    both = pairs_between(runs, linear)
    assert [pair.name for pair in both] == [
        f"ce, cosine head + {name} to ce, linear head + {name}" for name in ("raw", "ea")
    ]
    (line, *_) = comparison_table(both).lines
    assert [cell.mean for cell in line.cells][2:] == [0, 0, 0, 0, 0, 0, 1]  # they are the same
    (pair,) = pairs_between(runs, linear, [("raw", "ea")])
    assert comparison_table([pair]).lines[0].cells == comparison_table(pairs_within(runs)).lines[0].cells
    with pytest.raises(EnergyAlignError, match="has no row of wa: choose one of raw, ea"):
        pairs_between(runs, linear, [("raw", "wa")])
    with pytest.raises(EnergyAlignError, match="each side must be one training, got 2"):
        pairs_between([*runs, *linear], linear)
    with pytest.raises(EnergyAlignError, match="the two sides have no seed in common \\(seed 0; seed 1\\)"):
        comparison_table(pairs_between(runs[:1], linear[1:]))
    other = other_training(made_up_run(tmp_path / "other", NAMES, per_class=4))
    with pytest.raises(EnergyAlignError, match="must have the same test images"):
        comparison_table(pairs_between(runs[:1], [other]))
