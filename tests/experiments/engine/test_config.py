"""Look-ups, and short names for folders."""

from __future__ import annotations

import pytest

from energyalign import EnergyAlignError
from energyalign.experiments.engine.config import look_up, short_name


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
