"""Differences between settings, and rows that must not be averaged."""

from __future__ import annotations

from dataclasses import replace

import pytest
from table_rows import DEFAULT_PLAN, long_tail_row, step_rows

from energyalign import EnergyAlignError
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.engine.row import Settings
from energyalign.experiments.engine.stored import of_one_plan
from energyalign.report.tables import TABLES
from energyalign.report.tables.incremental import as_in_the_paper as incremental_as_in_the_paper
from energyalign.report.tables.longtail import as_in_the_paper
from energyalign.report.tables.settings import Difference, check_one_setting, differences


def test_differences_have_paths_and_words() -> None:
    one = {"kind": "A", "x": 1, "deep": {"kind": "B", "y": 0.5, "z": [1]}, "plan": None, "same": 3}
    other = {"kind": "A", "x": 2, "deep": {"kind": "B", "y": 0.25, "z": [2]}, "plan": {"kind": "P"}, "same": 3.0}
    assert list(differences(one, other)) == [
        Difference("x", "1", "2"),
        Difference("deep.y", "0.5", "0.25"),
        Difference("deep.z", "[1]", "[2]"),
        Difference("plan", "none", "P"),
    ]
    assert list(differences({"s": {"kind": "A", "x": 1}}, {"s": {"kind": "B"}})) == [Difference("s", "A", "B")]
    assert list(differences({"profile": {"cat": 3}}, {"profile": "exponential"})) == [
        Difference("profile", "given by hand", "exponential")
    ]


def test_seeds_are_one_setting_and_epochs_are_two() -> None:
    rows = [long_tail_row("ea", "cifar100-lt-100", 0.4, seed=seed) for seed in (0, 1)]
    check_one_setting(rows, "ea")
    other = long_tail_row("ea", "cifar100-lt-100", 0.4, seed=2, epochs=16)
    with pytest.raises(
        EnergyAlignError, match=r"rows of ea must differ only in the seed, got recipe.epochs is 200 and 16"
    ):
        check_one_setting([*rows, other], "ea")


@pytest.mark.parametrize("make", [
    lambda epochs: [long_tail_row("ea", "cifar100-lt-100", 0.4, epochs=epochs)],
    lambda epochs: step_rows("ea", "cifar100-il-2", [0.8, 0.6], epochs=epochs),
], ids=["longtail", "incremental"])  # fmt: skip
def test_rows_of_several_settings_have_no_table(make) -> None:  # type: ignore[no-untyped-def]
    rows = [*make(8), *make(16)]
    name = "cifar100-il-2" if rows[0].in_steps else "cifar-lt"
    own = "longtail" if name == "cifar-lt" else "incremental"
    for table in (name, own, "matrix"):
        with pytest.raises(EnergyAlignError, match=r"only in the seed, got recipe.epochs is 8 and 16"):
            TABLES[table].make(rows)


def test_marks_agree_with_what_the_applications_call_the_papers_setting() -> None:
    for epochs in (None, 3):
        row = long_tail_row("crt", "imagenet-lt-resnet50", 0.4, epochs=epochs)
        (ours,) = (
            line for line in TABLES["imagenet-lt"].make([row]).lines if (line.method, line.source) == ("crt", "ours")
        )
        assert ours.off_paper != as_in_the_paper(row)
        for method in ("lwf", "bic", "wa", "ea"):
            rows = step_rows(method, "cifar100-il-2", [0.8, 0.6], epochs=epochs)
            made = TABLES["cifar100-il-2"].make(rows).lines
            (ours,) = (line for line in made if (line.method, line.source) == (method, "ours"))
            assert ours.off_paper != incremental_as_in_the_paper(rows[0])


def test_the_plan_that_nobody_has_to_ask_for_goes_first() -> None:
    crop, five = replace(DEFAULT_PLAN, policy="crop-flip"), replace(DEFAULT_PLAN, per_class=5)
    seeds = [long_tail_row("ea", "cifar100-lt-100", 0.4, seed=seed) for seed in (0, 1)]
    rows = [replace(row, evidence=plan) for plan in (crop, DEFAULT_PLAN, five) for row in seeds]
    assert of_one_plan(rows) == (rows[2:4], ["crop-flip x 50", "two x 5"])
    assert of_one_plan([rows[4], rows[0]]) == ([rows[4]], ["crop-flip x 50"])
    plans = [EvidencePlan(n, policy) for policy in ("none", "two") for n in (5, 20, 200)]
    sizes = [replace(seeds[0], evidence=plan) for plan in plans]
    assert of_one_plan(sizes) == ([sizes[3]], ["none x 5", "none x 20", "none x 200", "two x 20", "two x 200"])
    features = Settings({**seeds[0].config.values, "dataset": "features:f.npz"})
    kinds = [replace(seeds[0], evidence=EvidencePlan(policy=policy), config=features) for policy in ("none", "mixup")]
    assert of_one_plan(kinds) == ([kinds[1]], ["none x 50"])
    without = replace(seeds[0], evidence=None)
    assert of_one_plan([without]) == ([without], [])
    assert of_one_plan([rows[4], without]) == ([rows[4]], ["none"])


@pytest.mark.parametrize(("policy", "is_off"), [("one", False), ("two", False), ("half", False), ("crop-flip", True)])
def test_policies_with_the_papers_transformations_are_as_in_the_paper(policy: str, is_off: bool) -> None:
    row = replace(long_tail_row("ea", "cifar100-lt-100", 0.4), evidence=replace(DEFAULT_PLAN, policy=policy))
    (ours,) = (line for line in TABLES["cifar-lt"].make([row]).lines if (line.method, line.source) == ("ea", "ours"))
    assert ours.off_paper == is_off
