"""ONNX models from files and into files."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

import onnx

from energyalign.core._io.atomic import atomic_write, refuse_unwritable
from energyalign.core.errors import EnergyAlignError
from energyalign.files.checks import reading, require_file
from energyalign.onnx.external_data import external_files, external_tensors, pack
from energyalign.onnx.graph import Model


def read_model(path: Path) -> Model:
    """The model without the numbers that are in other files."""
    require_file(path, str(path))
    with reading(str(path), "an ONNX model"):
        model = onnx.load_model_from_string(path.read_bytes())
        if not model.graph.node or not model.opset_import:
            raise ValueError("there is no graph in it")
    return model


def refuse_output(path: Path, model: Model, source: Path) -> None:
    """Raise before any work if the result cannot be written to `path`, or would destroy what it is made of."""
    refuse_unwritable(path)
    data = external_files(model, source.parent, str(source))
    if not data:
        return
    refuse_unwritable(data_path(path))
    for target in (path, data_path(path)):
        if _is_one_of(target, {source, *data}):
            raise EnergyAlignError(
                f"{target} is part of the model {source}, whose data is in files of its own: two files cannot be "
                "replaced at once. Give the result another name."
            )


def write_model(model: Model, source: Path, path: Path) -> tuple[Path, ...]:
    """Write the model, and its data as ``<name>.data`` beside it if it had any in other files; returns the files.

    Both are whole and on disk before either takes the place of an older file; the data goes first.
    """
    if next(external_tensors(model), None) is None:
        with atomic_write(path, "wb") as stream:
            stream.write(model.SerializeToString())
        return (path,)
    with atomic_write(path, "wb") as stream, atomic_write(data_path(path), "wb") as data:
        pack(model, source.parent, data, data_path(path).name)
        stream.write(model.SerializeToString())
        stream.flush()
        os.fsync(stream.fileno())
    return (path, data_path(path))


def data_path(path: Path) -> Path:
    """Where the data of a model at `path` goes."""
    return path.with_name(f"{path.name}.data")


def _is_one_of(path: Path, others: Collection[Path]) -> bool:
    return path.exists() and any(path.samefile(other) for other in others)
