"""JSON files, read strictly: no NaN, no key given twice, no file that would fill the memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from energyalign.core.errors import EnergyAlignError
from energyalign.core.strict_json import parse_json
from energyalign.files.checks import reading, require_file

JSON_BYTES = 256 * 2**20


def read_json(path: Path) -> Any:
    """The value in a JSON file."""
    size = require_file(path, str(path))
    if size > JSON_BYTES:
        raise EnergyAlignError(
            f"{path} has {size:,} bytes, more than the {JSON_BYTES:,} that are read as JSON: save it as .npy."
        )
    with reading(str(path), "JSON in UTF-8"):
        return parse_json(path.read_text(encoding="utf-8-sig"))


def json_type(content: object) -> str:
    """What JSON calls the type of a value that was read from it."""
    names = {dict: "object", list: "list", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(content), "number")
