"""Whether stored settings and rows have what tables, figures and pages read, before these trip over it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from energyalign.core.errors import EnergyAlignError

Check = Callable[[object], bool]
_FILE_NAME_PART = re.compile(r"[\w.:+ -]+")  # correctors are part of the names of files


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and _FILE_NAME_PART.fullmatch(value) is not None


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_evidence(value: object) -> bool:
    return isinstance(value, dict) and _is_name(value.get("policy")) and _is_whole(value.get("per_class"))


def _is_recipe(value: object) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("optimizer"), dict):
        return False
    return _is_whole(value.get("epochs")) and _is_text(value["optimizer"].get("kind"))


def _or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _list_of(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


_NUMBERS = _or_none(_list_of(_or_none(_is_number)))
_CONFIG: dict[str, Check] = {
    "name": _is_text, "head": _is_text, "backbone": _is_text, "seed": _is_whole, "recipe": _is_recipe,
}  # fmt: skip
_OF_STEPS: dict[str, Check] = {"n_steps": _is_whole, "held_out": _is_number}
_ROW: dict[str, Check] = {
    "cell": _is_text, "learner": _is_text, "corrector": _is_name, "seed": _is_whole, "overall": _is_number,
    "evidence": _or_none(_is_evidence), "config": _is_object,
}  # fmt: skip
_LONG_TAIL_ROW: dict[str, Check] = {name: _or_none(_is_number) for name in ("many", "medium", "few")}
_STEP_ROW: dict[str, Check] = {
    "step": _is_whole, "n_steps": _is_whole, "memory": _is_text, "fed_back": _is_text, "top5": _is_number,
    "new": _is_number, "old": _or_none(_is_number), "groups": _list_of(_is_number),
}  # fmt: skip
_IF_THERE: dict[str, Check] = {
    "counts": _list_of(_is_whole), "concerns": _list_of(_is_text), "n_old": _is_whole, "n_new": _is_whole,
    "estimator": _or_none(_is_text), "n_clusters": _or_none(_is_whole), "versions": _is_object,
} | dict.fromkeys(
    ("shifts", "standard_errors", "effective_samples", "energies_before", "energies_after", "per_class"), _NUMBERS
)  # fmt: skip


def check_config(config: Mapping[str, Any], file: object, *, in_steps: bool) -> None:
    """Raise if these are not the settings of a run, whose classes may come in steps."""
    _check(config, _CONFIG | (_OF_STEPS if in_steps else {}), file)


def check_row(row: Mapping[str, Any], file: object, *, in_steps: bool) -> None:
    """Raise if this is not a row of such a run."""
    _check(row, _ROW | (_STEP_ROW if in_steps else _LONG_TAIL_ROW), file)
    _check(row, {key: check for key, check in _IF_THERE.items() if key in row}, file)
    check_config(row["config"], file, in_steps=in_steps)


def _check(values: Mapping[str, Any], checks: Mapping[str, Check], file: object) -> None:
    for key, check in checks.items():
        if key not in values or not check(values[key]):
            raise EnergyAlignError(
                f"{file} has no {key!r} that could be read: it is of another version, or was changed. Run the command "
                "that made it again, in another folder."
            )
