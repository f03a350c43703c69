"""Rows as JSON and back, their order in a file, errors that name the field, and rows as a data frame."""

from __future__ import annotations

import json
import math
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_row import made_row
from stored_runs import incremental_run, long_tail_run

from energyalign import EnergyAlignError, load_rows
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.engine.row import Row, Settings
from energyalign.experiments.engine.stored import ResultRows, read_rows, store_row
from energyalign.experiments.longtail.config import LongTailConfig
from energyalign.experiments.longtail.presets import PRESETS
from energyalign.experiments.train.run_directory import RunDirectory

CONFIG = LongTailConfig.from_preset(PRESETS["digits-lt-50"], seed=3).to_json()
FULL = made_row(
    CONFIG, corrector="ea", evidence=EvidencePlan(5, "two"), many=0.9, few=None, shifts=(0.0, -1.5),
    standard_errors=(0.1, None), estimator="lse", n_clusters=2, concerns=("doubt",), details={"tau": 1.5},
)  # fmt: skip


def test_json_and_back_is_the_same_row() -> None:
    text = json.dumps(FULL.to_json(), allow_nan=False)
    assert Row.from_json(json.loads(text)) == FULL


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("overall", "0.5", "overall must be a finite number, got '0.5'"),
        ("overall", math.inf, "overall must be a finite number, got inf"),
        ("overall", True, "overall must be a finite number, got True"),
        ("seed", -1, "seed must be a whole number >= 0, got -1"),
        ("seed", 1.0, "seed must be a whole number >= 0, got 1.0"),
        ("seed", 2**63, "seed must be a whole number >= 0"),
        ("corrector", "../ea", "corrector must be a name, got '../ea'"),
        ("corrector", None, "corrector must be text, got None"),
        ("counts", [1, "2"], "counts[1] must be a whole number >= 0, got '2'"),
        ("counts", 5, "counts must be a list, got 5"),
        ("shifts", [0.0, [1.0]], "shifts[1] must be a finite number, got [1.0]"),
        ("evidence", {"per_class": 5}, "evidence.policy must be text, got None"),
        ("evidence", {"per_class": 0, "policy": "one"}, "must be >= 1 image of each class, got 0"),
        ("evidence", {"per_class": 5, "policy": "../x"}, "unknown evidence policy '../x'"),
        ("config", [], "config must be a JSON object, got []"),
        ("config", {**CONFIG, "head": 3}, "config.head must be text, got 3"),
        ("config", {**CONFIG, "recipe": {}}, "config.recipe.epochs must be a whole number >= 0, got None"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named_with_what_it_is(field: str, value: Any, message: str) -> None:
    with pytest.raises(EnergyAlignError, match=re.escape(message)) as caught:
        Row.from_json({**FULL.to_json(), field: value}, "rows.jsonl, line 7,")
    assert str(caught.value).startswith("rows.jsonl, line 7,")


def test_missing_and_unknown_fields_are_named() -> None:
    values = FULL.to_json()
    del values["few"]
    with pytest.raises(EnergyAlignError, match="few is missing; fewest is unknown"):
        Row.from_json({**values, "fewest": 1.0})


def test_settings_of_steps_need_what_steps_have() -> None:
    with pytest.raises(ValueError, match=r"config\.n_steps must be a whole number"):
        Settings({**CONFIG, "kind": "IncrementalConfig"})
    assert Settings(CONFIG).n_steps == 1
    assert not Settings(CONFIG).in_steps


def test_an_unknown_accuracy_is_refused() -> None:
    assert FULL.accuracy("many") == 0.9
    with pytest.raises(EnergyAlignError, match="unknown accuracy 'shifts': choose one of balanced, overall"):
        FULL.accuracy("shifts")


def test_a_row_takes_the_place_of_the_one_with_its_key_and_leaves_the_others(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    for step, corrector, value in ((2, "raw", 0.1), (1, "raw", 0.2), (2, "ea", 0.3), (2, "raw", 0.4)):
        store_row(run, made_row(CONFIG, corrector=corrector, step=step, overall=value))
    stored = [(row.step, row.corrector, row.overall) for row in read_rows(run)]
    assert stored == [(1, "raw", 0.2), (2, "ea", 0.3), (2, "raw", 0.4)]


@given(st.permutations([(step, corrector) for step in (1, 2) for corrector in ("ea", "raw")]))
def test_the_file_does_not_tell_in_which_order_rows_came(keys: list[tuple[int, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = RunDirectory(Path(folder))
        for step, corrector in keys:
            store_row(run, made_row(CONFIG, corrector=corrector, step=step))
        assert [(row.step, row.corrector) for row in read_rows(run)] == sorted(keys)


def test_rows_that_differ_in_evidence_alone_stand_beside_each_other() -> None:
    assert FULL.key != replace(FULL, evidence=EvidencePlan(6, "two")).key


def test_rows_of_both_applications_as_a_data_frame(tmp_path: Path) -> None:
    long_tail_run(tmp_path / "a", epochs=1)
    incremental_run(tmp_path / "b", epochs=1)
    rows = load_rows(tmp_path)
    frame = rows.to_frame()
    assert isinstance(rows, ResultRows)
    assert len(frame) == len(rows) > 5
    assert set(frame["cell"]) == {"digits-lt-50", "digits-il-5"}
    of_ea = frame[frame["corrector"] == "ea"]
    assert set(of_ea["evidence.per_class"]) == {5}
    assert frame["overall"].between(0, 1).all()
    assert set(frame["config.head"]) == {"cosine"}
