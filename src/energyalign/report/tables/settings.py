"""Which rows may share a line of a table, and what their settings differ in: from each other, or from the paper's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.row import Row


class Difference(NamedTuple):
    """A setting that has two values."""

    name: str
    one: str
    other: str


def differences(one: Any, other: Any, name: str = "") -> Iterator[Difference]:
    """Where two settings differ, as they stand in config.json; ``recipe.epochs`` is within ``recipe``."""
    if one == other:
        return
    if not (isinstance(one, Mapping) and isinstance(other, Mapping) and one.get("kind") == other.get("kind")):
        yield Difference(name, _told(one), _told(other))
        return
    for key in dict.fromkeys([*one, *other]):
        yield from differences(one.get(key), other.get(key), f"{name}.{key}" if name else key)


def check_one_setting(rows: Iterable[Row], name: str) -> None:
    """Refuse rows that differ in more than the seed: their mean would be of nothing."""
    first, *others = ({**row.config.values, "seed": None} for row in rows)
    for other in others:
        found = [f"{what} is {one} and {another}" for what, one, another in differences(first, other)]
        if found:
            raise EnergyAlignError(
                f"the rows of {name} are of different settings ({'; '.join(found)}): make a table of each."
            )


def _told(value: Any) -> str:
    """A setting in a word or a few."""
    if isinstance(value, Mapping):
        return str(value.get("kind", "given by hand"))
    if value is None:
        return "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
