"""Settings as JSON, so that a run directory can say what it is of."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any


def described(value: Any) -> Any:
    """A dataclass as a dict with its ``kind``, nested ones too; tuples as lists; the rest as it is."""
    if is_dataclass(value) and not isinstance(value, type):
        return {"kind": type(value).__name__} | {
            item.name: described(getattr(value, item.name)) for item in fields(value)
        }
    if isinstance(value, (list, tuple)):
        return [described(item) for item in value]
    return value
