"""Tensors that keep their numbers in files beside the model, as large models must."""

from __future__ import annotations

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

from energyalign.core.errors import EnergyAlignError
from energyalign.files.checks import reading
from energyalign.onnx.graph import Model, Node

_PAGE = 4096  # tensors that start on a page can be mapped into memory


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
