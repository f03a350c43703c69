"""JSON files, read strictly: no NaN, no key given twice, no file that would fill the memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from energyalign.core.strict_json import read_json_file
from energyalign.files.checks import reading, require_file


def read_json(path: Path) -> Any:
    """The value in a JSON file."""
    require_file(path, str(path))
    with reading(str(path), "JSON in UTF-8"):
        return read_json_file(path)


def json_type(content: object) -> str:
    """What JSON calls the type of a value that was read from it."""
    names = {dict: "object", list: "list", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(content), "number")
