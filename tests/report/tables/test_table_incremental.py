"""Tables from hand-made rows: averages, forgetting, seeds, names of lines, and the paper's numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from made_row import made_row

from energyalign import EnergyAlignError
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.engine.row import Row
from energyalign.experiments.incremental.config import IncrementalConfig
from energyalign.experiments.incremental.learners import find_learner
from energyalign.experiments.incremental.memory import MemoryPlan
from energyalign.experiments.incremental.methods import METHODS
from energyalign.experiments.incremental.presets import PRESETS, Preset
from energyalign.report.tables.incremental import as_in_the_paper, at_step, curves_of, label_of
from energyalign.report.tables.model import Cell, PaperTable, as_text, plain
from energyalign.report.tables.own import incremental_table, steps_table

CIFAR2 = PRESETS["cifar100-il-2"]
DIGITS = PRESETS["digits-il-5"]
THREE_STEPS = replace(DIGITS, n_steps=3)
ONE_50 = EvidencePlan(50, "one")


def config_of(
    learner: str = "distill", memory: str = "random:2000", fed_back: str = "ea", *, preset: Preset = CIFAR2,
    head: str | None = None, seed: int = 0,
) -> IncrementalConfig:  # fmt: skip
    return IncrementalConfig.from_preset(
        preset.with_head(head), find_learner(learner), seed=seed, memory=MemoryPlan.parse(memory, 2000),
        corrector=fed_back,
    )  # fmt: skip


def curve(
    config: IncrementalConfig, corrector: str, accuracies: Sequence[float], groups: Any = None, **more: Any
) -> list[Row]:
    """Return a row for each step; the first group of classes is forgotten most."""
    evidence = ONE_50 if corrector.startswith("ea") else None
    return [
        made_row(
            config.to_json(), corrector=corrector, overall=overall, learner=config.learner.name,
            memory=str(config.memory), fed_back=config.fed_back, step=step, top5=min(1.0, overall + 0.2),
            old=None if step == 1 else overall - 0.1, new=overall + 0.1,
            groups=(overall,) * step if groups is None else tuple(groups[step - 1]), **({"evidence": evidence} | more),
        )
        for step, overall in enumerate(accuracies, 1)
    ]  # fmt: skip


def titles(table: PaperTable) -> list[str]:
    """Return the titles of all columns."""
    return [column.title for column in table.columns]


def printed(table: PaperTable) -> list[list[str]]:
    """Return names and numbers of all lines as printed."""
    return [[line.method, *map(plain, line.cells, [line] * len(titles(table)), table.columns)] for line in table.lines]


def by_steps(rows: Sequence[Row]) -> list[list[str]]:
    return printed(steps_table(rows))


def summary(rows: Sequence[Row]) -> list[list[str]]:
    return printed(incremental_table(rows))


def named(name: str, preset: Preset = CIFAR2, **more: Any) -> tuple[IncrementalConfig, str]:
    """Return config and corrector of a method in a cell."""
    method = METHODS[name]
    config = config_of(
        method.learner, method.memory, method.corrector, preset=preset, head=method.head or preset.head, **more
    )
    return config, method.corrector


def test_averages_forgetting_and_the_last_step() -> None:
    groups = [[0.9], [0.6, 0.8], [0.5, 0.7, 0.85]]
    rows = curve(config_of(preset=THREE_STEPS), "ea", [0.9, 0.7, 0.6], groups)
    assert titles(incremental_table(rows)) == [
        "average", "with step 1", "last step", "old", "new", "forgetting", "top-5 average", "seeds"
    ]  # fmt: skip
    # (70 + 60) / 2, (90 + 70 + 60) / 3; forgotten: (90 - 50 + 80 - 70) / 2; top-5: (90 + 80) / 2.
    assert summary(rows) == [["ea", "65.0", "73.3", "60.0", "50.0", "70.0", "25.0", "85.0", "1"]]


def test_mean_and_deviation_over_seeds() -> None:
    rows = curve(config_of(preset=DIGITS), "ea", [0.9, 0.60]) + curve(
        config_of(preset=DIGITS, seed=1), "ea", [0.8, 0.64]
    )
    ((name, average, with_first, last, *_, seeds),) = summary(rows)
    # The standard deviation of two values is their difference over the square root of 2.
    assert (name, average, last, seeds) == ("ea", "62.0 ± 2.8", "62.0 ± 2.8", "2")
    assert with_first == "73.5 ± 2.1"
    assert titles(steps_table(rows)) == ["1", "2", "3", "4", "5"]
    assert by_steps(rows) == [["ea", "85.0 ± 7.1", "62.0 ± 2.8", "-", "-", "-"]]
    assert as_text(steps_table(rows)) == (["method", "1", "2"], [["ea", "85.0 ± 7.1", "62.0 ± 2.8"]])


def test_another_column_by_step() -> None:
    (line,) = curves_of(curve(config_of(), "ea", [0.9, 0.6])).values()
    assert [str(Cell.over_seeds(at_step(line, step, "old"))) for step in (1, 2)] == ["-", "50.0"]


def test_one_step_alone_has_no_average_without_it_and_nothing_to_forget() -> None:
    (line,) = summary(curve(config_of(preset=DIGITS), "raw", [0.9]))
    assert line == ["raw", "-", "90.0", "90.0", "-", "100.0", "-", "-", "1"]


def test_missing_steps_are_empty_and_do_not_move_the_others() -> None:
    config = config_of(preset=THREE_STEPS)
    whole, part = curve(config, "ea", [0.9, 0.8, 0.7]), curve(config, "raw", [0.9, 0.6])
    assert by_steps(whole + part) == [["raw", "90.0", "60.0", "-"], ["ea", "90.0", "80.0", "70.0"]]
    assert by_steps(whole[1:]) == [["ea", "-", "80.0", "70.0"]]
    (line,) = summary(whole[1:])
    assert line[1:3] == ["75.0", "75.0"]
    assert line[6] == "-"


def test_a_row_given_twice_counts_once_and_rows_come_in_any_order() -> None:
    rows = curve(config_of(preset=THREE_STEPS), "ea", [0.9, 0.8, 0.7])
    assert incremental_table([*reversed(rows), *rows]) == incremental_table(rows)
    (line,) = curves_of([*reversed(rows), *rows]).values()
    assert [row.step for row in line[0].rows] == [1, 2, 3]


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_found_again_from_its_composition(name: str) -> None:
    for preset in (CIFAR2, DIGITS):
        config, corrector = named(name, preset)
        assert label_of(curve(config, corrector, [0.5])[0]) == name


@pytest.mark.parametrize(
    ("learner", "memory", "fed_back", "head", "corrector", "label"),
    [
        ("distill", "random:2000", "ea", None, "raw", "distill (cosine, random, fed back: ea) + raw"),
        ("distill", "random:2000", "raw", None, "ea", "distill (cosine, random) + ea"),
        ("distill", "herding:2000", "ea", None, "ea", "distill (cosine, herding, fed back: ea) + ea"),
        ("distill", "herding:2000", "raw", None, "ea", "distill (cosine, herding) + ea"),
        ("fine-tune", "random:2000", "raw", "cosine", "raw", "fine-tune (cosine, random) + raw"),
        ("fine-tune", "random:2000", "bic", "linear", "raw", "fine-tune (linear, random, held out) + raw"),
        ("icarl", "herding:2000", "raw", None, "raw", "icarl (linear, herding) + raw"),
    ],
)
def test_compositions_without_a_name(
    learner: str, memory: str, fed_back: str, head: str | None, corrector: str, label: str
) -> None:
    assert label_of(curve(config_of(learner, memory, fed_back, head=head), corrector, [0.5])[0]) == label


def test_one_training_is_told_by_its_correctors_and_several_by_their_methods() -> None:
    raw_and_ea = curve(config_of(), "raw", [0.9, 0.5]) + curve(config_of(), "ea", [0.9, 0.7])
    assert list(curves_of(raw_and_ea)) == ["raw", "ea"]
    without = curve(config_of(fed_back="raw"), "raw", [0.9, 0.4])
    assert list(curves_of([*raw_and_ea, *without])) == ["distill (cosine, random, fed back: ea) + raw", "ea", "distill"]


def test_trainings_with_and_without_held_out_images_are_two_lines() -> None:
    with_all, held_out = (config_of("fine-tune", fed_back=name, head="linear") for name in ("raw", "bic"))
    rows = curve(with_all, "raw", [0.9, 0.5]) + curve(held_out, "raw", [0.9, 0.4]) + curve(held_out, "bic", [0.9, 0.6])
    assert [line[:3] for line in by_steps(rows)] == [
        ["fine-tuning", "90.0", "50.0"],
        ["fine-tune (linear, random, held out) + raw", "90.0", "40.0"],
        ["fine-tune (linear, random, held out) + bic", "90.0", "60.0"],
    ]


def test_several_memories_are_told_apart() -> None:
    rows = [
        row for n in (40, 80) for row in curve(config_of(memory=f"random:{n}", fed_back="raw"), "raw", [0.9, n / 100])
    ]
    assert [line[0] for line in summary(rows)] == ["distill, random:40", "distill, random:80"]


def test_kinds_of_evidence_are_told_apart() -> None:
    other = {"evidence": EvidencePlan(5, "none")}
    config = config_of()
    rows = curve(config, "raw", [0.9]) + curve(config, "ea", [0.9]) + curve(config, "ea", [0.8], **other)
    assert [line[:2] for line in by_steps(rows)] == [
        ["raw", "90.0"],
        ["ea, none x 5", "80.0"],
        ["ea, one x 50", "90.0"],
    ]


def test_the_paper_beside_ours_with_a_difference_for_its_own_row() -> None:
    rows = [row for name in ("ea", "wa", "distill") for row in curve(*named(name), [0.8, 0.66])]
    assert titles(incremental_table(rows))[-3:] == ["paper", "paper, top-5", "difference"]
    assert [[line[0], *line[-3:]] for line in summary(rows)] == [
        ["ea", "65.2", "-", "+0.8"],
        ["distill", "-", "-", "-"],
        ["wa", "65.1", "-", "-"],
    ]


def test_top_5_of_the_paper() -> None:
    config, corrector = named("ea", PRESETS["imagenet100-il-10"])
    (line,) = summary(curve(config, corrector, [0.9] + [0.7] * 9))
    assert line[-3:] == ["71.1", "91.2", "-1.1"]
    config, corrector = named("lwf", PRESETS["imagenet100-il-10"])
    assert summary(curve(config, corrector, [0.9, 0.7]))[0][-3:] == ["-", "60.7", "-"]


@pytest.mark.parametrize(
    "change",
    [
        {"backbone": "resnet8"}, {"recipe": CIFAR2.recipe.lasting(30)}, {"order": "natural"}, {"subset": "first:20"},
        {"lambda_base": 0.5}, {"memory": MemoryPlan("random", 200)}, {"memory": MemoryPlan("herding", 2000)},
        {"learned_scale": True}, {"fed_back": "raw", "evidence": None},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_other_settings_have_no_difference_to_the_paper(change: dict[str, Any]) -> None:
    config, corrector = named("ea")
    assert as_in_the_paper(curve(config, corrector, [0.8])[0])
    changed = curve(replace(config, **change), corrector, [0.8, 0.66])
    assert not as_in_the_paper(changed[0])
    table = incremental_table(changed)
    assert titles(table)[-1] == "difference"
    assert table.lines[0].cells[-1] == Cell()


def test_an_unfinished_run_has_no_difference() -> None:
    config, corrector = named("ea")
    assert summary(curve(config, corrector, [0.8]))[0][-3:] == ["65.2", "-", "-"]
    rows = curve(config, corrector, [0.8, 0.66]) + curve(replace(config, seed=1), corrector, [0.8, 0.68])
    assert summary(rows)[0][-1] == "+1.8"


def test_cells_of_our_own_have_no_paper() -> None:
    assert "paper" not in titles(incremental_table(curve(config_of(preset=DIGITS), "ea", [0.9, 0.7])))


def test_rows_of_different_settings_are_no_line() -> None:
    one = curve(config_of(preset=DIGITS), "ea", [0.9, 0.8])
    other = curve(config_of(preset=replace(DIGITS, order="seed:1"), seed=1), "ea", [0.9, 0.8])
    with pytest.raises(EnergyAlignError, match="rows of ea must differ only in the seed"):
        curves_of(one + other)
