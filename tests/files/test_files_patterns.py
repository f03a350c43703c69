"""Patterns that match many files."""

from __future__ import annotations

from pathlib import Path

import pytest

from energyalign import EnergyAlignError
from energyalign.files.shards import expand_patterns


def test_a_pattern_stands_for_all_that_match_sorted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deep").mkdir()
    for name in ("b.npy", "a.npy", "c.txt", "deep/d.npy"):
        (tmp_path / name).touch()
    assert expand_patterns(["*.npy"]) == ["a.npy", "b.npy"]
    assert expand_patterns(["-", "[b-c].*", "gone.npy", "**/d.npy"]) == [
        "-",
        "b.npy",
        "c.txt",
        "gone.npy",
        "deep/d.npy",
    ]


def test_a_file_with_the_characters_of_a_pattern_is_itself(tmp_path: Path) -> None:
    for name in ("a[1].npy", "a1.npy"):
        (tmp_path / name).touch()
    assert expand_patterns([str(tmp_path / "a[1].npy")]) == [str(tmp_path / "a[1].npy")]


def test_a_pattern_without_a_match() -> None:
    with pytest.raises(EnergyAlignError, match=r"nowhere/\*\.npy matches no file: check the folder"):
        expand_patterns(["nowhere/*.npy"])
