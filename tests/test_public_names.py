"""The public names of `energyalign`, and the examples in its documentation."""

from __future__ import annotations

import doctest
import importlib
import importlib.metadata
import pkgutil
import re

import pytest

import energyalign
import energyalign.core
import energyalign.datasets
import energyalign.sklearn

MODULES = sorted(
    found.name
    for package in (energyalign.core, energyalign.datasets, energyalign.sklearn)
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
)


def examples(module: str) -> list[doctest.DocTest]:
    return [test for test in doctest.DocTestFinder().find(importlib.import_module(module)) if test.examples]


@pytest.mark.parametrize("name", energyalign.__all__)
def test_every_name_is_there_and_explained(name: str) -> None:
    value = getattr(energyalign, name)
    if name != "__version__":
        assert value.__name__ == name
        assert value.__doc__


def test_the_names_that_the_readme_promises() -> None:
    from energyalign import EnergyAlignedClassifier, EnergyAligner, FreeEnergy, Shifts

    names = {part.__name__ for part in (EnergyAlignedClassifier, EnergyAligner, FreeEnergy, Shifts)}
    assert names <= set(energyalign.__all__)


def test_dir_shows_the_names() -> None:
    assert set(energyalign.__all__) <= set(dir(energyalign))


def test_a_star_import_gives_the_names() -> None:
    space: dict[str, object] = {}
    exec("from energyalign import *", space)
    assert set(energyalign.__all__) <= set(space)


def test_a_name_is_loaded_once() -> None:
    assert energyalign.Shifts is energyalign.Shifts is importlib.import_module("energyalign.core.shifts").Shifts


def test_an_unknown_name() -> None:
    with pytest.raises(AttributeError, match="module 'energyalign' has no attribute 'Energise'"):
        energyalign.Energise  # noqa: B018
    with pytest.raises(ImportError, match="Energise"):
        exec("from energyalign import Energise")


def test_the_version_is_that_of_the_distribution() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", energyalign.__version__)
    try:
        installed = importlib.metadata.version("energyalign")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("energyalign is used from its source tree, not installed")
    assert installed == energyalign.__version__


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings_give_what_they_say(module: str) -> None:
    said: list[str] = []
    runner = doctest.DocTestRunner()
    for test in examples(module):
        runner.run(test, out=said.append)
    assert runner.failures == 0, "".join(said)


def test_there_are_examples() -> None:
    having = {module for module in MODULES if examples(module)}
    assert {"energyalign.core.free_energy", "energyalign.sklearn.aligner", "energyalign.sklearn.classifier"} <= having


def test_a_wrong_example_would_be_found() -> None:
    wrong = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, None)
    assert doctest.DocTestRunner().run(wrong, out=lambda _: None).failed == 1
