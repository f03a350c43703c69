"""ONNX models from files and into files: their external data, and a note in those that are aligned."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import IO, Any

import onnx
from onnx.external_data_helper import (
    ExternalDataInfo,
    load_external_data_for_tensor,
    set_external_data,
    uses_external_data,
)

from energyalign import __version__
from energyalign.core._io.atomic import atomic_write, check_outputs
from energyalign.core.errors import EnergyAlignError
from energyalign.core.multilabel import MultilabelShifts
from energyalign.core.shifts import Shifts
from energyalign.files.checks import InputFile, reading
from energyalign.onnx.graph import Model, Node

_PAGE = 4096  # tensors that start on a page can be mapped into memory
KEY = "energyalign"


def read_model(path: Path) -> Model:
    """The model without the numbers that are in other files."""
    with InputFile(path, str(path), "an ONNX model").reading():
        model = onnx.load_model_from_string(path.read_bytes())
        if not model.graph.node or not model.opset_import:
            raise ValueError("there is no graph in it")
    return model


def refuse_output(path: Path, model: Model, source: Path) -> None:
    """Raise before any work if the result cannot be written to `path`, or would destroy what it is made of."""
    data = external_files(model, source.parent, str(source))
    check_outputs([path, data_path(path) if data else None], [source, *data])


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


def external_tensors(model: Model) -> Iterator[Any]:
    """Every tensor of the model whose numbers are in another file, wherever in the model it is."""
    function_nodes = chain.from_iterable(function.node for function in model.functions)
    tensors = chain(_tensors_of_graph(model.graph), _tensors_of_nodes(function_nodes))
    return (tensor for tensor in tensors if uses_external_data(tensor))


def external_files(model: Model, folder: Path, name: str) -> set[Path]:
    """The files with the model's numbers, checked: in the model's folder, there, and long enough.

    A model is a file from somewhere; one that names ``../secret`` must not have it copied into its result.
    """
    files = set()
    for tensor in external_tensors(model):
        with reading(name, "an ONNX model"):
            info = ExternalDataInfo(tensor)
            path = (folder / info.location).resolve()
            end = int(info.offset or 0) + int(info.length or 0)
        if not path.is_relative_to(folder.resolve()):
            raise EnergyAlignError(
                f"{name} keeps tensor {tensor.name!r} in {info.location!r}, which is outside its folder and is not "
                "read: put plain copies of the model and its data into one folder."
            )
        if not path.is_file() or path.stat().st_size < end:
            trouble = "too short" if path.is_file() else "not there"
            raise EnergyAlignError(
                f"{name} keeps tensor {tensor.name!r} in {info.location!r}, which is {trouble}: put the whole data "
                "file beside the model, or export it again."
            )
        files.add(path)
    return files


def pack(model: Model, folder: Path, stream: IO[bytes], location: str) -> None:
    """Copy the numbers of all external tensors into one stream, and let the model look for them at `location`."""
    for tensor in external_tensors(model):
        with reading(str(folder), "the folder of a model's data"):
            load_external_data_for_tensor(tensor, str(folder))
        stream.write(bytes(-stream.tell() % _PAGE))
        set_external_data(tensor, location, stream.tell(), len(tensor.raw_data))
        stream.write(tensor.raw_data)
        tensor.ClearField("raw_data")  # one tensor at a time is in memory


def _tensors_of_graph(graph: onnx.GraphProto) -> Iterator[Any]:
    yield from graph.initializer
    yield from chain.from_iterable((one.values, one.indices) for one in graph.sparse_initializer)
    yield from _tensors_of_nodes(graph.node)


def _tensors_of_nodes(nodes: Iterable[Node]) -> Iterator[Any]:
    for attribute in chain.from_iterable(node.attribute for node in nodes):
        yield from (attribute.t, *attribute.tensors)
        yield from chain.from_iterable(_tensors_of_graph(graph) for graph in (attribute.g, *attribute.graphs))


def stamp(model: Model, shifts: Shifts | MultilabelShifts) -> None:
    """Add one entry to the model's metadata: what was added to the logits, and by which version."""
    note = {
        "version": __version__,
        "estimator": shifts.estimator,
        "n_classes": shifts.n_classes,
        "sha256": hashlib.sha256(shifts.values.astype("<f8").tobytes()).hexdigest(),
    }
    model.metadata_props.add(key=KEY, value=json.dumps(note))


def refuse_aligned(model: Model, name: str) -> None:
    """Shifts added a second time would turn the bias around."""
    note = next((entry.value for entry in model.metadata_props if entry.key == KEY), None)
    if note is not None:
        raise EnergyAlignError(f"{name} is already aligned (its metadata has {note}): start from the original file.")
