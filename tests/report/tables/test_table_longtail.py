"""Tables: mean and deviation over seeds, the paper's number, and a difference only in the paper's setting."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from made_row import made_row

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.engine.row import Row
from energyalign.experiments.longtail.config import LongTailConfig
from energyalign.experiments.longtail.learners import find_learner
from energyalign.experiments.longtail.methods import METHODS, name_of
from energyalign.experiments.longtail.presets import PRESETS
from energyalign.report.tables.longtail import lines_of
from energyalign.report.tables.model import PaperTable, plain
from energyalign.report.tables.own import longtail_table, matrix_table

PRESET = PRESETS["cifar100-lt-100"]


def row(corrector: str, overall: float, seed: int = 0, config: LongTailConfig | None = None, **more: Any) -> Row:
    config = config or LongTailConfig.from_preset(PRESET, seed=seed)
    evidence = EvidencePlan(50, "one") if corrector.startswith("ea") else None
    return made_row(
        config.to_json(), corrector=corrector, overall=overall, learner=config.learner.name, many=0.6, medium=None,
        few=0.1, **({"evidence": evidence} | more),
    )  # fmt: skip


def titles(table: PaperTable) -> list[str]:
    """Return the titles of all columns."""
    return [column.title for column in table.columns]


def printed(table: PaperTable) -> list[list[str]]:
    """Return names and numbers of all lines as printed."""
    return [[line.method, *map(plain, line.cells, [line] * len(titles(table)), table.columns)] for line in table.lines]


def test_mean_and_deviation_over_seeds_beside_the_paper() -> None:
    table = longtail_table([row("ea", 0.44, 0), row("ea", 0.46, 1)])
    assert titles(table) == ["balanced", "many", "medium", "few", "seeds", "paper", "difference"]
    assert printed(table) == [["ea", "45.0 ± 1.4", "60.0 ± 0.0", "-", "10.0 ± 0.0", "2", "45.3", "-0.3"]]


def test_a_seed_counts_once() -> None:
    (line,) = printed(longtail_table([row("raw", 0.4), row("raw", 0.4)]))
    assert line[1:6] == ["40.0", "60.0", "-", "10.0", "1"]


@pytest.mark.parametrize("change", [{"backbone": "resnet8"}, {"recipe": PRESET.recipe.lasting(30)}])
def test_another_network_or_schedule_has_no_difference_to_the_paper(change: dict[str, Any]) -> None:
    config = LongTailConfig.from_preset(replace(PRESET, **change), seed=0)
    (line,) = printed(longtail_table([row("ea", 0.44, config=config)]))
    assert line[-2:] == ["45.3", "-"]


def test_several_trainings_are_told_apart_by_the_names_of_the_methods() -> None:
    linear = LongTailConfig.from_preset(replace(PRESET, head="linear"), seed=0)
    lines = printed(longtail_table([row("raw", 0.4), row("ea", 0.45), row("tau-norm", 0.42, config=linear)]))
    assert [line[0] for line in lines] == ["ce", "ea", "tau-norm"]
    lines = printed(longtail_table([row("ea", 0.45), row("ea", 0.3, config=linear)]))
    assert [line[:2] for line in lines] == [["ea", "45.0"], ["ce (linear) + ea", "30.0"]]


def test_the_papers_rows_have_the_papers_head() -> None:
    linear = LongTailConfig.from_preset(replace(PRESET, head="linear"), seed=0)
    (line,) = printed(longtail_table([row("ea", 0.3, config=linear)]))
    assert line[-2:] == ["-", "-"]


def test_kinds_of_evidence_are_told_apart() -> None:
    lines = printed(
        longtail_table([row("raw", 0.4), row("ea", 0.45), row("ea", 0.44, evidence=EvidencePlan(5, "none"))])
    )
    assert [line[0] for line in lines] == ["raw", "ea, none x 5", "ea, one x 50"]


def test_trainings_and_correctors_as_a_matrix() -> None:
    linear = LongTailConfig.from_preset(replace(PRESET, head="linear"), seed=0)
    rows = [row("raw", 0.4), row("raw", 0.42, 1), row("ea", 0.45), row("raw", 0.39, config=linear)]
    table = matrix_table(rows)
    assert titles(table) == ["raw", "ea"]
    assert printed(table) == [["ce", "41.0 ± 1.4", "45.0"], ["ce (linear)", "39.0", "-"]]


def test_every_method_is_found_by_its_parts() -> None:
    for name, method in METHODS.items():
        head = method.head or find_learner(method.learner).head or "cosine"
        assert name_of(method.learner, head, method.corrector) == name
    assert name_of("ldam-drw", "cosine", "ea") == "ldam-drw + ea"
    assert name_of("ce", "capsule", "ea") == "ce (capsule) + ea"


def test_every_learner_comes_back_from_the_json_of_its_run() -> None:
    for preset in PRESETS.values():
        for method in METHODS.values():
            config = LongTailConfig.from_preset(preset, find_learner(method.learner), seed=3)
            assert LongTailConfig.from_json(config.to_json()) == config
            compiled = replace(config, compile=True)
            assert LongTailConfig.from_json(compiled.to_json()) == compiled
            assert "compile" not in config.to_json()  # so that runs from before this option stay valid


@pytest.mark.parametrize("table", [lines_of, longtail_table, matrix_table])
def test_other_settings_under_one_name_are_neither_averaged_nor_hidden(table: Any) -> None:
    """Also for equal seeds, where one of the two rows could be dropped."""
    short = LongTailConfig.from_preset(replace(PRESET, recipe=PRESET.recipe.lasting(8)), seed=0)
    rows = [row("ea", 0.45), row("ea", 0.30, config=short)]
    with pytest.raises(EnergyAlignError, match=r"rows of (ea|ce) must differ only in the seed"):
        table(rows)
