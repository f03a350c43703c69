"""Looking things up by the name that a user gave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from energyalign.core.errors import EnergyAlignError

_Entry = TypeVar("_Entry")


def found(registry: Mapping[str, _Entry], name: str, kind: str) -> _Entry:
    """The entry of this name, or an error that lists those there are."""
    if name not in registry:
        raise EnergyAlignError(f"unknown {kind} {name!r}: choose one of {', '.join(registry)}.")
    return registry[name]
