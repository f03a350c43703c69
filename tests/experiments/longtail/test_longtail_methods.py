"""Long-tailed methods: which are the paper's, and names with the same meaning."""

from __future__ import annotations

import pytest

from energyalign.cli.main import main
from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.longtail.methods import METHODS, find_method
from energyalign.experiments.longtail.paper import PAPER


def test_the_rows_that_the_paper_prints_are_marked_as_its_own() -> None:
    printed = {name for cell in PAPER.values() for name in cell}
    of_paper = {name for name, method in METHODS.items() if method.in_paper}
    assert printed <= of_paper
    assert len(of_paper) == 24
    assert "lade" not in of_paper


def test_balanced_softmax_is_la_loss() -> None:
    with pytest.raises(EnergyAlignError, match="'balanced-softmax': it is the same as la-loss"):
        find_method("balanced-softmax")


def test_the_list_tells_them_apart(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "methods"]) == 0
    listed = capsys.readouterr().out
    (newer,) = listed.split("long tail, not in the paper")[1:]
    newer = newer.split("class-incremental")[0]
    assert {name for name, method in METHODS.items() if not method.in_paper} <= set(newer.split())
    assert "ldam-drw" not in newer.split()
    assert "Balanced Softmax" in listed
