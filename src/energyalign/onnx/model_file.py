"""Read and write ONNX files with their external data, and mark aligned models in their metadata."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
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
from energyalign.core._io.atomic import atomic_write
from energyalign.core._io.regular import open_regular
from energyalign.core.errors import EnergyAlignError
from energyalign.core.multilabel import MultilabelShifts
from energyalign.core.shifts import Shifts
from energyalign.files.checks import InputFile, reading
from energyalign.files.spool import Spool
from energyalign.onnx.graph import Model, Node

_PAGE = 4096  # a tensor that starts on a page can be memory-mapped
_HASH_LENGTH = 16
KEY = "energyalign"


def read_model(path: Path) -> tuple[Model, list[InputFile]]:
    """Read a model without its external data; return it and its files, which must stay unchanged until it is written.

    The data are read several times, and belong to this version of the model only.
    """
    file = InputFile(path, str(path), "an ONNX model")
    with file.open() as stream:
        model = onnx.load_model_from_string(stream.read())
        if not model.graph.node or not model.opset_import:
            raise ValueError("it has no graph")
    data = sorted(external_files(model, path.parent, str(path)))
    return model, [file, *(InputFile(one, str(one), "data of an ONNX model") for one in data)]


def copy_data(model: Model, folder: Path, data: Sequence[InputFile]) -> tuple[Path, list[Spool]]:
    """Copy the external data to temporary files, and let the model look it up there; return their folder and them.

    onnxruntime maps data into memory: accessing the map of a file that has been truncated kills the process (SIGBUS).
    """
    copies: dict[Path, Spool] = {}
    for file in data:
        with file.open() as stream:
            copies[file.path] = Spool(stream, file.name, file.kind)
    for tensor in external_tensors(model):
        copy = copies[(folder / ExternalDataInfo(tensor).location).resolve()]
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = copy.path.name
    return Path(tempfile.gettempdir()), list(copies.values())


def write_model(model: Model, folder: Path, path: Path, files_read: Sequence[InputFile]) -> tuple[Path, ...]:
    """Write the model, and its external data if it has any, which is in `folder`; return the files.

    Both are complete and on disk before either is renamed to its final name, the data first. The data file is called
    ``<name>.<hash of the data>.data``, so that it never replaces the data of another model: at any moment, the model at
    `path` finds its own data. The data of a replaced model is removed at the end, unless a model beside it mentions it,
    such as a copy of the replaced model.
    """
    if not any(external_tensors(model)):
        with atomic_write(path, "wb") as stream:
            stream.write(model.SerializeToString())
            _refuse_changed(files_read)
        return (path,)
    replaced = _written_data(path) - {file.path for file in files_read}
    data = _data_path(path, model, folder)
    with atomic_write(path, "wb") as stream, atomic_write(data, "wb") as packed:
        pack(model, folder, packed, data.name)
        stream.write(model.SerializeToString())
        stream.flush()
        os.fsync(stream.fileno())
        _refuse_changed(files_read)
    for old in replaced - {data.resolve()}:
        if not any(_mentions(model_file, old.name) for model_file in path.parent.glob("*.onnx")):
            old.unlink(missing_ok=True)
    return (path, data)


def _mentions(path: Path, name: str) -> bool:
    """Return whether a file contains this name; True if it cannot be read."""
    end = b""
    try:
        with open_regular(path) as stream:
            while part := stream.read(2**20):
                if name.encode() in end + part:
                    return True
                end = part[-len(name.encode()) :]
    except (OSError, ValueError):
        return True
    return False


def _refuse_changed(files: Sequence[InputFile]) -> None:
    for file in files:
        file.refuse_changed()


def _data_path(path: Path, model: Model, folder: Path) -> Path:
    """Return the path of the data of a model at `path`."""
    content = hashlib.sha256()
    for _, padding, numbers in _in_pages(model, folder):
        content.update(padding)
        content.update(numbers)
    return path.with_name(f"{path.name}.{content.hexdigest()[:_HASH_LENGTH]}.data")


def _written_data(path: Path) -> set[Path]:
    """Return the data files of the model at `path` that `write_model` wrote."""
    name = re.compile(rf"{re.escape(path.name)}\.[0-9a-f]{{{_HASH_LENGTH}}}\.data")
    try:
        _, (_, *data) = read_model(path)
    except EnergyAlignError:  # no file, or not a readable model
        return set()
    return {file.path for file in data if name.fullmatch(file.path.name)}


def external_tensors(model: Model) -> Iterator[Any]:
    """Yield every tensor with external data, including tensors of functions and subgraphs."""
    function_nodes = chain.from_iterable(function.node for function in model.functions)
    tensors = chain(_tensors_of_graph(model.graph), _tensors_of_nodes(function_nodes))
    return (tensor for tensor in tensors if uses_external_data(tensor))


def external_files(model: Model, folder: Path, name: str) -> set[Path]:
    """Return the external data files; raise if one is outside the model's folder, missing or too short.

    A model is not trusted: one that names ``../secret`` must not get it copied into the result.
    """
    files = set()
    for tensor in external_tensors(model):
        with reading(name, "an ONNX model"):
            info = ExternalDataInfo(tensor)
            path = (folder / info.location).resolve()
            end = int(info.offset or 0) + int(info.length or 0)
        if not path.is_relative_to(folder.resolve()):
            raise EnergyAlignError(
                f"{name} keeps tensor {tensor.name!r} in {info.location!r}, which is outside the model's folder and "
                "is not read: "
                "put copies (no links) of the model and its data into one folder."
            )
        if not path.is_file() or path.stat().st_size < end:
            problem = "too short" if path.is_file() else "missing"
            raise EnergyAlignError(
                f"{name} keeps tensor {tensor.name!r} in {info.location!r}, which is {problem}: put the complete data "
                "file into the folder of the model, or export it again."
            )
        files.add(path)
    return files


def pack(model: Model, folder: Path, stream: IO[bytes], location: str) -> None:
    """Copy all external data into one stream, and let the model look it up at `location`."""
    for tensor, padding, numbers in _in_pages(model, folder):
        stream.write(padding)
        tensor.raw_data = b""  # set_external_data needs it
        set_external_data(tensor, location, stream.tell(), len(numbers))
        tensor.ClearField("raw_data")
        stream.write(numbers)


def _in_pages(model: Model, folder: Path) -> Iterator[tuple[Any, bytes, bytes]]:
    """Yield every external tensor, the padding that lets it start on a page, and its bytes; loads one at a time."""
    end = 0
    for tensor in external_tensors(model):
        loaded = onnx.TensorProto()
        loaded.CopyFrom(tensor)
        with reading(str(folder), "the folder of a model's data"):
            load_external_data_for_tensor(loaded, str(folder))
        padding = bytes(-end % _PAGE)
        end += len(padding) + len(loaded.raw_data)
        yield tensor, padding, loaded.raw_data


def _tensors_of_graph(graph: onnx.GraphProto) -> Iterator[Any]:
    yield from graph.initializer
    yield from chain.from_iterable((one.values, one.indices) for one in graph.sparse_initializer)
    yield from _tensors_of_nodes(graph.node)


def _tensors_of_nodes(nodes: Iterable[Node]) -> Iterator[Any]:
    for attribute in chain.from_iterable(node.attribute for node in nodes):
        yield from (attribute.t, *attribute.tensors)
        yield from chain.from_iterable(_tensors_of_graph(graph) for graph in (attribute.g, *attribute.graphs))


def stamp(model: Model, shifts: Shifts | MultilabelShifts) -> None:
    """Add an entry on the shifts to the model's metadata."""
    note = {
        "version": __version__,
        "estimator": shifts.estimator,
        "n_classes": shifts.n_classes,
        "sha256": hashlib.sha256(shifts.values.astype("<f8").tobytes()).hexdigest(),
    }
    model.metadata_props.add(key=KEY, value=json.dumps(note))


def refuse_aligned(model: Model, name: str) -> None:
    """Raise if the model is aligned already: shifts added twice would reverse the bias."""
    note = next((entry.value for entry in model.metadata_props if entry.key == KEY), None)
    if note is not None:
        raise EnergyAlignError(f"{name} is already aligned (metadata: {note}): start from the original file.")
