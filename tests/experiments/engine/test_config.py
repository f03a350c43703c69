"""Looking up names, short names for folders, and config.json."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from energyalign import EnergyAlignError
from energyalign.experiments.engine.config import look_up, short_name
from energyalign.experiments.longtail.config import LongTailConfig
from energyalign.experiments.longtail.learners import CrossEntropy
from energyalign.experiments.longtail.presets import PRESETS
from energyalign.experiments.train.recipe import left_out_at
from energyalign.experiments.train.run_directory import open_run


@pytest.mark.parametrize(
    ("dataset", "name"),
    [
        ("digits", "digits"),
        ("folder:/data/my images", "folder-my-images"),
        ("folder:/data/my images/", "folder-my-images"),
        ("folder:birds", "folder-birds"),
        ("parquet:a/b.c/train-*.parquet", "parquet-train-parquet"),
        ("folder:..", "folder"),
    ],
)
def test_short_names(dataset: str, name: str) -> None:
    assert short_name(dataset) == name


def test_an_unknown_name_is_answered_with_those_there_are() -> None:
    assert look_up({"a": 1, "b": 2}, "b", "thing") == 2
    with pytest.raises(EnergyAlignError, match="unknown thing 'c': choose one of a, b"):
        look_up({"a": 1, "b": 2}, "c", "thing")


def test_a_setting_added_later_leaves_older_runs_as_they_were(tmp_path: Path) -> None:
    before = LongTailConfig.from_preset(PRESETS["digits-lt-50"], seed=0)

    @dataclass(frozen=True)
    class Later(CrossEntropy):
        smoothing: float = left_out_at(0.0)

    @dataclass(frozen=True, kw_only=True)
    class LaterConfig(LongTailConfig):
        clip: float | None = left_out_at(None)

    for later in (Later, LaterConfig):  # config.json has the name of the class that they extend
        later.__name__ = later.__bases__[0].__name__
    same = LaterConfig.from_preset(PRESETS["digits-lt-50"], Later(), seed=0)
    assert same.to_json() == before.to_json()
    assert LaterConfig.restore(before.to_json(), {"ce": Later()}) == same

    with open_run(tmp_path / "run", before.to_json()) as run:
        written = (run.path / "config.json").read_bytes()
    with open_run(tmp_path / "run", same.to_json()) as run:
        assert (run.path / "config.json").read_bytes() == written
    other = LaterConfig.from_preset(PRESETS["digits-lt-50"], Later(smoothing=0.1), seed=0, clip=2.0)
    assert LaterConfig.restore(other.to_json(), {"ce": Later()}) == other
    differences = r"clip is not set there and 2\.0 here; learner\.smoothing is not set there and 0\.1 here"
    with pytest.raises(EnergyAlignError, match=differences), open_run(tmp_path / "run", other.to_json()):
        pass
