"""The verdict says who wins, whoever it is."""

from __future__ import annotations

from pathlib import Path

from made_row import made_row

from energyalign.experiments.engine.row import Settings
from energyalign.experiments.engine.stored import StoredRun
from energyalign.report.page.story import verdict_of
from energyalign.report.trainings import Training, named_in_full


def training(accuracies: dict[str, list[float]], *, head: str = "cosine", few: float | None = 0.5) -> list[StoredRun]:
    """A run for each seed, with a row for each corrector."""
    runs = []
    for seed in range(len(next(iter(accuracies.values())))):
        config = {
            "kind": "LongTailConfig", "name": "digits-lt-50", "head": head, "seed": seed, "learner": {"kind": "CE"},
            "recipe": {"epochs": 1, "optimizer": {"kind": "SGD"}}, "backbone": "small-cnn",
        }  # fmt: skip
        rows = [made_row(config, corrector=name, overall=values[seed], few=few) for name, values in accuracies.items()]
        runs.append(StoredRun(Path(f"{head}/seed-{seed}"), Settings(config), rows))
    return runs


def verdict(*runs: list[StoredRun]) -> list[str]:
    trainings: list[Training] = named_in_full([run for of_training in runs for run in of_training])
    return verdict_of(trainings)


def test_it_wins() -> None:
    (told,) = verdict(training({"raw": [0.70, 0.72], "ea": [0.80, 0.84], "logit-adjustment": [0.78, 0.80]}))
    assert told == (
        "digits-lt-50, ce, cosine head: energy aligning as in the paper (ea) raises the test accuracy, "
        "71.0 ± 1.4 to 82.0 ± 2.8 % (2 seeds; few classes 50.0 ± 0.0 to 50.0 ± 0.0). "
        "Nothing else that was measured behind this training is ahead of it."
    )


def test_it_loses_and_another_is_best() -> None:
    (told,) = verdict(training({"raw": [0.85], "ea": [0.79], "ea-marginal": [0.91]}))
    assert "(ea) lowers the test accuracy, 85.0 to 79.0 % (1 seed;" in told
    assert told.endswith("Best behind this training is ea-marginal with 91.0 %.")


def test_the_raw_network_is_best() -> None:
    (told,) = verdict(training({"raw": [0.85], "ea": [0.79]}))
    assert told.endswith("Best behind this training is the raw network with 85.0 %.")


def test_nothing_changes() -> None:
    (told,) = verdict(training({"raw": [0.8], "ea": [0.8001]}))
    assert "does not change the test accuracy, 80.0 to 80.0 %" in told


def test_only_seeds_that_have_both_are_compared() -> None:
    runs = training({"raw": [0.5, 0.9], "ea": [0.6, 0.0]})
    del runs[1].rows[1]
    (told,) = verdict(runs)
    assert "50.0 to 60.0 % (1 seed;" in told
    assert told.endswith("Nothing else that was measured behind this training is ahead of it.")  # with that seed


def test_no_few_classes() -> None:
    (told,) = verdict(training({"raw": [0.5], "ea": [0.6]}, few=None))
    assert "50.0 to 60.0 % (1 seed). Nothing" in told


def test_nothing_to_compare() -> None:
    told = verdict(training({"raw": [0.5]}))
    assert told == ["digits-lt-50: nothing was measured both raw and under energy aligning (ea) yet."]


def test_many_trainings_in_one_sentence() -> None:
    gains = {"a": (0.5, 0.6), "b": (0.5, 0.7), "c": (0.6, 0.5), "d": (0.5, 0.5)}
    runs = [training({"raw": [raw], "ea": [ea]}, head=head) for head, (raw, ea) in gains.items()]
    (told,) = verdict(*runs)
    assert told == (
        "digits-lt-50: energy aligning as in the paper (ea) raises the test accuracy of 2 of 4 trainings and lowers "
        "that of 1, by +5.0 points in the mean. Best of all is ea behind ce, b head with 70.0 %."
    )
