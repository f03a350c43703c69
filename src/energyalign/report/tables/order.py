"""The order of lines: raw first, then as in the registry of correctors."""

from __future__ import annotations

from energyalign.experiments.correctors import CORRECTORS
from energyalign.experiments.engine.row import natural

_PLACES = {name: place for place, name in enumerate(CORRECTORS)}


def corrector_key(name: str) -> tuple[int, list[tuple[int, str]]]:
    """Return the sort key of a corrector; others than those of the registry are last, ``ea-M2`` before ``ea-M16``."""
    return _PLACES.get(name, len(_PLACES)), natural(name)
