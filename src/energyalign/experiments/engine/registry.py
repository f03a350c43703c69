"""Names that users give: looking them up, and making short ones for folders."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

from energyalign.core.errors import EnergyAlignError

_Entry = TypeVar("_Entry")


def look_up(registry: Mapping[str, _Entry], name: str, kind: str) -> _Entry:
    """The entry of this name, or an error that lists those there are."""
    if name not in registry:
        raise EnergyAlignError(f"unknown {kind} {name!r}: choose one of {', '.join(registry)}.")
    return registry[name]


def short_name(dataset: str) -> str:
    """``folder:/data/my images`` becomes ``folder-my-images``."""
    kind, _, path = dataset.partition(":")
    return "-".join([kind, *re.findall(r"\w+", path.rstrip("/").rpartition("/")[2])])
