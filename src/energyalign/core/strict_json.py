"""JSON read strictly: no NaN, no infinity, no key given twice."""

from __future__ import annotations

import json
from typing import Any


def parse_json(text: str) -> Any:
    """The value of a JSON text; a `ValueError` says what is wrong with it."""
    try:
        return json.loads(text, object_pairs_hook=_no_repeats, parse_constant=_no_constant)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # By default the last of them would win, and a class would silently lose its number.
    seen: dict[str, Any] = {}
    for key, value in pairs:
        if key in seen:
            raise ValueError(f"the key {key!r} is given twice")
        seen[key] = value
    return seen


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not a JSON number")
