"""Differences between the settings of rows, or from the paper's, and which rows may share a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.row import Row

PAPER_POLICIES = {"one", "two", "half"}
"""Evidence policies with the paper's ten transformations; the paper does not say how many an image undergoes."""


class Difference(NamedTuple):
    """A setting with its two values."""

    name: str
    one: str
    other: str


def differences(one: Any, other: Any, name: str = "") -> Iterator[Difference]:
    """Yield the differences between two configs, by path: ``recipe.epochs``."""
    if one == other:
        return
    if not (isinstance(one, Mapping) and isinstance(other, Mapping) and one.get("kind") == other.get("kind")):
        yield Difference(name, _describe(one), _describe(other))
        return
    for key in dict.fromkeys([*one, *other]):
        yield from differences(one.get(key), other.get(key), f"{name}.{key}" if name else key)


def differences_from_paper(ours: Any, paper: Any, name: str = "") -> list[Difference]:
    """Return the differences from the paper's config; policies that the paper allows do not count."""
    return [
        difference
        for difference in differences(ours, paper, name)
        if not (difference.name == "evidence.policy" and PAPER_POLICIES.issuperset(difference[1:]))
    ]


def check_one_setting(rows: Iterable[Row], name: str) -> None:
    """Raise if rows differ in more than the seed: their mean would be meaningless."""
    first, *others = ({**row.config.values, "seed": None} for row in rows)
    for other in others:
        found = [f"{what} is {one} and {another}" for what, one, another in differences(first, other)]
        if found:
            raise EnergyAlignError(
                f"rows of {name} must differ only in the seed, got {'; '.join(found)}: make a table of each."
            )


def _describe(value: Any) -> str:
    if isinstance(value, Mapping):
        return str(value.get("kind", "given by hand"))
    if value is None:
        return "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
