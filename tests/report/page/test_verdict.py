"""The headline of the page of runs, and its details."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from made_row import made_row
from table_rows import step_rows

from energyalign.experiments.engine.row import Settings
from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.page.verdict import results_of
from energyalign.report.tables import Cell, Column, Line, PaperTable
from energyalign.report.trainings import name_in_full


def training(accuracies: dict[str, list[float]], *, head: str = "cosine", few: float | None = 0.5) -> list[StoredRun]:
    """Make a training with a run for each seed, and a row for each corrector."""
    runs = []
    for seed in range(len(next(iter(accuracies.values())))):
        config = {
            "kind": "LongTailConfig", "name": "digits-lt-50", "head": head, "seed": seed, "learner": {"kind": "CE"},
            "recipe": {"epochs": 1, "optimizer": {"kind": "SGD"}}, "backbone": "small-cnn",
        }  # fmt: skip
        rows = [made_row(config, corrector=name, overall=values[seed], few=few) for name, values in accuracies.items()]
        runs.append(StoredRun(Path(f"{head}/seed-{seed}"), Settings(config), rows))
    return runs


def results(*runs: list[StoredRun]) -> list[tuple[str, str]]:
    return results_of(name_in_full([run for of_training in runs for run in of_training]), {})


def test_it_wins() -> None:
    ((headline, details),) = results(
        training({"raw": [0.70, 0.72], "ea": [0.80, 0.84], "logit-adjustment": [0.78, 0.80]})
    )
    assert headline == "Balanced accuracy 71.0 ± 1.4 % → 82.0 ± 2.8 % with energy aligning (2 seeds)."
    assert "few 50.0 ± 0.0 % → 50.0 ± 0.0 %" in details
    assert details.endswith("No other corrector that was measured on this training is better.")


def test_it_loses_and_another_is_best() -> None:
    ((headline, details),) = results(training({"raw": [0.85], "ea": [0.79], "ea-marginal": [0.91]}))
    assert headline == "Balanced accuracy 85.0 % → 79.0 % with energy aligning (1 seed)."
    assert details.endswith("Best on this training: ea-marginal with 91.0 %.")


def test_the_raw_network_is_best() -> None:
    ((_, details),) = results(training({"raw": [0.85], "ea": [0.79]}))
    assert details.endswith("Best on this training: the raw network with 85.0 %.")


@pytest.mark.parametrize(
    ("n_seeds", "low", "high", "end"),
    [
        (2, -162.0, 155.0, "-162.0 to +155.0). The change is not clear over 2 seeds."),
        (1, -1.0, 2.0, "-1.0 to +2.0). The change is not clear on these test images."),
        (2, 1.0, 2.0, "+1.0 to +2.0)."),
        (2, -2.0, -1.0, "-2.0 to -1.0)."),
    ],
)
def test_a_change_whose_interval_contains_0_is_not_clear(n_seeds: int, low: float, high: float, end: str) -> None:
    (of_run,) = name_in_full(training({"raw": [0.58, 0.49][:n_seeds], "ea": [0.67, 0.33][:n_seeds]}))
    cells = tuple(map(Cell, (53.5, 49.8, -3.7, 1.0, low, high)))
    comparison = PaperTable("compare", "", tuple(map(Column, "abcdef")), (Line("raw to ea", "", cells),))
    ((headline, _),) = results_of([of_run], {of_run: comparison})
    assert headline.endswith(f"95 % interval of the gain: {end}")


def test_only_seeds_that_have_both_are_compared() -> None:
    runs = training({"raw": [0.5, 0.9], "ea": [0.6, 0.0]})
    del runs[1].rows[1]
    ((headline, details),) = results(runs)
    assert headline == "Balanced accuracy 50.0 % → 60.0 % with energy aligning (1 seed)."
    assert details.endswith("No other corrector that was measured on this training is better.")  # with that seed


def test_no_few_classes() -> None:
    ((_, details),) = results(training({"raw": [0.5], "ea": [0.6]}, few=None))
    assert "few" not in details


def test_nothing_to_compare() -> None:
    assert results(training({"raw": [0.5]})) == [("digits-lt-50: no training has rows of both raw and ea yet.", "")]


def test_several_trainings_are_named() -> None:
    first, second = results(
        training({"raw": [0.5], "ea": [0.6]}, head="a"), training({"raw": [0.5], "ea": [0.7]}, head="b")
    )
    assert first[0] == "digits-lt-50, ce, a head: balanced accuracy 50.0 % → 60.0 % with energy aligning (1 seed)."
    assert second[0].startswith("digits-lt-50, ce, b head: balanced accuracy 50.0 % → 70.0 %")


def test_the_last_step() -> None:
    raw = step_rows("ea", "digits-il-5", [0.9, 0.4, 0.3])
    aligned = [replace(row, balanced=row.balanced + 0.2, overall=row.overall + 0.2) for row in raw]
    rows = [*(replace(row, corrector="raw", evidence=None) for row in raw), *aligned]
    ((headline, _),) = results([StoredRun(Path("seed-0"), raw[0].config, rows)])
    assert headline == "Balanced accuracy 30.0 % → 50.0 % with energy aligning after step 3 of 5 (1 seed)."


def test_many_trainings_in_one_headline() -> None:
    gains = {"a": (0.5, 0.6), "b": (0.5, 0.7), "c": (0.6, 0.5), "d": (0.5, 0.5)}
    runs = [training({"raw": [raw], "ea": [ea]}, head=head) for head, (raw, ea) in gains.items()]
    assert results(*runs) == [
        (
            "digits-lt-50: energy aligning changes balanced accuracy by +5.0 points on average over 4 trainings.",
            "It raises balanced accuracy in 2 of them and lowers it in 1. Best of all: ea on ce, b head with 70.0 %.",
        )
    ]
