"""Settings as JSON, so that a run directory can say what it is of, and back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from typing import Any

from energyalign.core.errors import EnergyAlignError


def described(value: Any) -> Any:
    """A dataclass as a dict with its ``kind``, nested ones too; tuples as lists; the rest as it is."""
    if is_dataclass(value) and not isinstance(value, type):
        return {"kind": type(value).__name__} | {
            item.name: described(getattr(value, item.name)) for item in fields(value)
        }
    if isinstance(value, (list, tuple)):
        return [described(item) for item in value]
    return value


def restored(value: Any, kinds: Iterable[type]) -> Any:
    """What `described` was given, from what it returned; `kinds` are the dataclasses that may occur."""
    by_name = {kind.__name__: kind for kind in kinds}

    def restore(value: Any) -> Any:
        if isinstance(value, dict) and isinstance(value.get("kind"), str):
            name = value["kind"]
            if name not in by_name:
                raise EnergyAlignError(f"unknown setting {name!r}; this version has {', '.join(sorted(by_name))}.")
            try:
                return by_name[name](**{key: restore(item) for key, item in value.items() if key != "kind"})
            except TypeError as error:
                raise EnergyAlignError(f"the settings of {name} are those of another version: {error}.") from error
        return tuple(map(restore, value)) if isinstance(value, list) else value

    return restore(value)
