"""Shifts as JSON: a versioned schema with a checksum, one class per line, exact numbers."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from energyalign.core._io.strict_json import parse_json
from energyalign.core.arrays import Floats
from energyalign.core.clusters import Clusters
from energyalign.core.errors import EnergyAlignError
from energyalign.core.names import names_of
from energyalign.core.selection.record import Candidate, Selection
from energyalign.core.shifts import Shifts

SCHEMA = "energyalign.shifts"
MULTILABEL_SCHEMA = "energyalign.multilabel-shifts"
VERSION = 1
_CHECKSUM = "sha256"
_SEAL = re.compile(rf'"{_CHECKSUM}": ?"[0-9a-f]*"')

# key in the file -> attribute of Shifts; the first two are required for every class
_PER_CLASS = {
    "shift": "values",
    "target": "target_prior",
    "standard_error": "standard_errors",
    "energy": "energies",
    "effective_samples": "effective_samples",
    "count": "counts",
}


def dump(shifts: Shifts) -> str:
    """Return the JSON text of shifts."""
    return seal(_text({"schema": SCHEMA, "version": VERSION, _CHECKSUM: ""} | _document(shifts)) + "\n")


def dump_labels(labels: Sequence[Shifts]) -> str:
    """Return the JSON text of the shifts of independent labels, with one checksum."""
    texts = ",\n".join(_text(_document(own)) for own in labels)
    head = f'"schema": "{MULTILABEL_SCHEMA}",\n"version": {VERSION},\n"{_CHECKSUM}": ""'
    return seal(f'{{\n{head},\n"labels": [\n{texts}\n]\n}}\n')


def seal(text: str) -> str:
    """Fill in the checksum of the text, computed without white space and with an empty checksum."""
    return _SEAL.sub(f'"{_CHECKSUM}": "{_checksum(text)}"', text, count=1)


def _checksum(text: str) -> str:
    bare = _SEAL.sub(f'"{_CHECKSUM}":""', re.sub(r"[ \t\r\n]", "", text), count=1)
    return hashlib.sha256(bare.encode(errors="surrogatepass")).hexdigest()


def _document(shifts: Shifts) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "estimator": shifts.estimator,
        "tau": shifts.tau,
        "strength": shifts.strength,
        "scoring": shifts.scoring,
        "sharing": shifts.clusters.name,
        "anchor_cluster": shifts.clusters.anchor,
        "evidence": {
            "kind": shifts.evidence_kind,
            "samples": shifts.n_samples,
            "probabilities": shifts.from_probabilities,
        },
        "concerns": list(shifts.concerns),
        "selection": None if shifts.selection is None else asdict(shifts.selection),
        "classes": _rows(shifts),
    }


def _text(document: dict[str, Any]) -> str:
    head = {key: value for key, value in document.items() if key != "classes"}
    lines = ",\n".join("    " + json.dumps(row, ensure_ascii=False) for row in document["classes"])
    text = json.dumps(head, indent=2, ensure_ascii=False, allow_nan=False)
    return f'{text[:-2]},\n  "classes": [\n{lines}\n  ]\n}}'


def _rows(shifts: Shifts) -> list[dict[str, Any]]:
    rows = []
    for k, cluster in enumerate(shifts.clusters.assignment):
        row: dict[str, Any] = {"name": None if shifts.class_names is None else shifts.class_names[k]}
        row["cluster"] = cluster
        for key, attribute in _PER_CLASS.items():
            values = getattr(shifts, attribute)
            # JSON has no infinity: the energy of a masked class (-inf) and an unknown error are null.
            row[key] = float(values[k]) if values is not None and np.isfinite(values[k]) else None
        rows.append(row)
    return rows


def parse(text: str) -> Shifts:
    """Parse the text of a file of shifts."""
    return from_document(parse_document(text))


def parse_document(text: str) -> Any:
    """Parse JSON and verify its checksum; the caller checks schema and version."""
    try:
        document = parse_json(text)
    except ValueError as error:
        raise EnergyAlignError(f"not valid JSON ({error}): fit again.") from error
    ours = isinstance(document, dict) and document.get("schema") in (SCHEMA, MULTILABEL_SCHEMA)
    if ours and document.get("version") == VERSION and document.get(_CHECKSUM) != _checksum(text):
        problem = "does not match its checksum" if _CHECKSUM in document else "has no checksum"
        raise EnergyAlignError(
            f'it {problem} ("{_CHECKSUM}"), so it was changed after energyalign wrote it: use the original, or fit '
            "again. To change shifts, load, change and save them in Python."
        )
    return document


def from_document(data: Any) -> Shifts:
    """Convert parsed JSON to shifts: of a file, or of one label in a file of independent labels."""
    if isinstance(data, dict) and data.get("schema") == MULTILABEL_SCHEMA:
        raise EnergyAlignError("it has shifts of independent labels, not of classes: use MultilabelShifts.load.")
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise EnergyAlignError(f'not a file of shifts: "schema" must be "{SCHEMA}".')
    version = data.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise EnergyAlignError('"version" must be a positive integer.')
    if version > VERSION:
        raise EnergyAlignError(
            f"written by a newer energyalign (schema version {version}; this one reads up to {VERSION}): upgrade."
        )
    try:
        return _build(data)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        if isinstance(error, EnergyAlignError):
            raise
        raise EnergyAlignError(f"it has a missing or wrong entry ({error!r}): fit again.") from error


def _build(data: dict[str, Any]) -> Shifts:
    rows = data["classes"]
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise EnergyAlignError('"classes" must be a list with one object per class.')
    names = [row.get("name") for row in rows]
    columns: dict[str, Any] = {attribute: _column(rows, key) for key, attribute in _PER_CLASS.items()}
    named = any(name is not None for name in names)
    return Shifts(
        clusters=Clusters(
            tuple(_integer(row["cluster"]) for row in rows),
            _integer(data["anchor_cluster"]),
            str(data["sharing"]),
        ),
        estimator=str(data["estimator"]),
        tau=_number(data["tau"]),
        strength=_number(data["strength"]),
        scoring=str(data["scoring"]),
        class_names=names_of(names) if named else None,
        evidence_kind=str(data["evidence"]["kind"]),
        n_samples=_number(data["evidence"]["samples"]),
        from_probabilities=data["evidence"].get("probabilities") is True,
        concerns=_texts(data["concerns"]),
        selection=_selection(data["selection"]),
        **columns,
    )


def _column(rows: list[dict[str, Any]], key: str) -> Floats | None:
    cells = [row[key] for row in rows]
    if key in ("shift", "target") and any(cell is None for cell in cells):
        raise EnergyAlignError(f'"{key}" of class {cells.index(None)} is missing: fit again.')
    if all(cell is None for cell in cells) and key != "standard_error":
        return None
    absent = {"energy": -np.inf, "standard_error": np.inf}.get(key, 0.0)
    return np.array([absent if cell is None else _number(cell) for cell in cells])


def _selection(data: dict[str, Any] | None) -> Selection | None:
    if data is None:
        return None
    candidates = tuple(_candidate(row) for row in data["candidates"])
    chosen = _integer(data["chosen"])
    if not 0 <= chosen < len(candidates):
        raise EnergyAlignError(f"the chosen candidate must be in 0..{len(candidates) - 1}, got {chosen}.")
    gain, error = (None if data[key] is None else _number(data[key]) for key in ("gain", "gain_error"))
    return Selection(candidates, chosen, str(data["reason"]), gain, error, str(data["score_name"]))


def _candidate(row: dict[str, Any]) -> Candidate:
    known = {item.name for item in fields(Candidate)}
    given = {key: value for key, value in row.items() if key in known and value is not None}
    texts = ("estimator", "sharing", "problem")
    checked: dict[str, Any] = {key: str(value) if key in texts else _number(value) for key, value in given.items()}
    return Candidate(**checked)


def _texts(values: object) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise EnergyAlignError(f"expected a list of strings, got {values!r}.")
    return tuple(values)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise EnergyAlignError(f"expected a number, got {value!r}.")
    return float(value)


def _integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise EnergyAlignError(f"expected an integer, got {value!r}.")
    return value
