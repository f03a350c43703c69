"""Labelled texts from a file, by split."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from energyalign.core._io.regular import open_regular
from energyalign.core._io.strict_json import read_json_file
from energyalign.core.errors import EnergyAlignError, some_of
from energyalign.files.checks import reading, require_extension

_SPLITS = {"train": "train", "test": "test", "val": "val", "validation": "val"}
_LABELS = ("label", "labels", "category", "intent", "class")
_DELIMITERS = {".csv": ",", ".tsv": "\t"}


class Texts(NamedTuple):
    """Texts and the names of their classes."""

    texts: list[str]
    labels: list[str]


def read_texts(path: Path) -> dict[str, Texts]:
    """Texts by split: of a table the training part alone, of JSON all splits that it has.

    A .csv or .tsv table has a header with the column ``text`` and one of `_LABELS`. A .json file is an object from
    ``train``, ``test`` and ``val`` to lists of ``[text, label]``; other keys are left out.
    """
    extension = require_extension(path, (*_DELIMITERS, ".json"))
    with reading(str(path), f"a {extension} file of texts"):
        if extension != ".json":
            return {"train": _read_table(path, _DELIMITERS[extension])}
        content = read_json_file(path)
        if not isinstance(content, dict) or "train" not in content:
            raise EnergyAlignError(f"{path} must hold an object with the key train: a list of [text, label].")
        return {_SPLITS[key]: _pairs(path, key, value) for key, value in content.items() if key in _SPLITS}


def _read_table(path: Path, delimiter: str) -> Texts:
    with open_regular(path) as stream:
        lines = stream.read().decode("utf-8-sig").splitlines()
    rows = csv.DictReader(lines, delimiter=delimiter)
    names = rows.fieldnames or []
    label = next((name for name in _LABELS if name in names), None)
    if "text" not in names or label is None:
        raise EnergyAlignError(
            f"{path} needs a header with the column text and one of {', '.join(_LABELS)}; it has {some_of(names)}."
        )
    return _pairs(path, "train", ([row["text"], row[label]] for row in rows))


def _pairs(path: Path, split: str, values: Iterable[Any]) -> Texts:
    texts, labels = [], []
    for number, value in enumerate(values, 1):
        if not (isinstance(value, list) and len(value) == 2 and all(isinstance(one, str) for one in value)):
            raise EnergyAlignError(f"{path}: sample {number} of {split} must be a text and a label, got {value!r:.80}.")
        texts.append(value[0])
        labels.append(value[1])
    if not texts:
        raise EnergyAlignError(f"{path} has no sample of {split}.")
    return Texts(texts, labels)
