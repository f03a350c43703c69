"""From an ONNX file and shifts to an ONNX file with corrected logits."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy.typing as npt

from energyalign.core._io.atomic import check_outputs
from energyalign.core.errors import EnergyAlignError
from energyalign.core.multilabel import MultilabelShifts
from energyalign.core.shifts import Shifts
from energyalign.files.checks import reading
from energyalign.onnx.classifier_node import ClassifierNode, find_classifier_node, renormalised
from energyalign.onnx.edits import Edit, possible_edits
from energyalign.onnx.graph import Graph
from energyalign.onnx.logits import FoundLogits, find_logits, possible_heads, walks_from_outputs
from energyalign.onnx.model_file import open_data, read_model, refuse_aligned, stamp, write_model
from energyalign.onnx.probes import Probes, given_probe, random_probes
from energyalign.onnx.runtime import CannotRun, Session
from energyalign.onnx.verify import NotAligned, verify


@dataclass(frozen=True)
class AlignedOnnx:
    """What was done to a model.

    Attributes
    ----------
    how : str
        ``folded``: a bias was changed, and the graph is the same. ``added``: it has one Add node more.
        ``renormalised``: shifts are added to logarithms of the probabilities that a tree ensemble or a linear
        classifier gives, and labels follow.
    node : str
        The node with that bias, or the new one; if it has no name, the tensor it makes.
    constant : str
        The initializer, or output of a Constant node, that holds the changed bias or the shifts.
    logits : str
        The tensor that holds corrected logits; if ``renormalised``, corrected probabilities.
    outputs : dict from str to str
        The outputs that show them, as ``logits``, ``probabilities``, ``log-probabilities``, ``sigmoids`` or ``labels``.
    largest_deviation : float
        From raw logits + shifts, or from the probabilities that these make, in onnxruntime.
    n_probes : int
        The inputs on which that was seen.
    files : tuple of Path
        What was written: the model, and its data if that is in a file of its own.
    """

    how: str
    node: str
    constant: str
    logits: str
    outputs: dict[str, str]
    largest_deviation: float
    n_probes: int
    files: tuple[Path, ...]


def align_onnx(
    model_path: str | os.PathLike[str],
    shifts: Shifts | MultilabelShifts,
    out_path: str | os.PathLike[str],
    *,
    output: str | None = None,
    probe: Mapping[str, npt.ArrayLike] | None = None,
) -> AlignedOnnx:
    """Write a copy of an ONNX model whose logits come out with the shifts added.

    They go into the bias of the node that makes the logits, or, where there is none, into one Add node behind it;
    softmax or sigmoid, labels and whatever else is computed from the logits follow. Logits are of classes, per sample,
    token or pixel, one logit of two classes, or of independent labels. Trees and linear classifiers as skl2onnx writes
    them have no logits: their probabilities and labels are corrected. Names, opset, free axes and metadata stay.
    The copy is written after onnxruntime has shown that it does what it should, and not at all otherwise.

    Parameters
    ----------
    model_path : path
        The model; data in other files is looked for beside it.
    shifts : Shifts or MultilabelShifts
    out_path : path
        Another file than `model_path`.
    output : str, optional
        The output with the logits, their softmax or sigmoids, if it cannot be told by itself.
    probe : mapping from input names to arrays, optional
        A batch to verify on, if the model does not run on random inputs.

    Returns
    -------
    AlignedOnnx

    Raises
    ------
    EnergyAlignError
        If it cannot be done; files are then as they were.
    """
    source, target, name = Path(model_path), Path(out_path), str(model_path)
    model = read_model(source)
    data = open_data(model, source)
    check_outputs([target], [source, *(file.path for file in data)])
    if data and target.is_symlink():
        raise EnergyAlignError(
            f"{target} is a link, and a model looks for its data beside the name it is loaded by: give the name of the "
            "file that the link leads to."
        )
    refuse_aligned(model, name)
    graph = Graph(model, source.parent)
    ways = [(head, walks_from_outputs(graph, output, head.squashes, name)) for head in possible_heads(shifts)]
    with reading(name, "an ONNX model"):
        node = find_classifier_node(graph)
    session = _open(graph, {one for _, walks in ways for walk in walks for one in walk.made} | _shown(node), name)
    probes = random_probes(session, shifts.n_classes, name) if probe is None else given_probe(session, probe, name)
    if isinstance(shifts, Shifts) and node is not None and node.has_probabilities(probes.raw, shifts.n_classes):
        edit, deviation = _verified_renormalised(graph, node, shifts, probes, name)
        tensor, outputs = node.probabilities, node.outputs
    else:
        logits = find_logits(ways, probes.raw, session.output_types, name)
        edit, deviation = _first_verified(graph, logits, shifts, probes, name)
        tensor, outputs = logits.tensor, logits.outputs
    return AlignedOnnx(
        how=edit.how,
        node=edit.node,
        constant=edit.constant,
        logits=tensor,
        outputs=outputs,
        largest_deviation=deviation,
        n_probes=len(probes.inputs),
        files=write_model(edit.model, source, target, data),
    )


def _shown(node: ClassifierNode | None) -> set[str]:
    return set() if node is None else {node.labels, node.probabilities}


def _open(graph: Graph, show: Collection[str], name: str) -> Session:
    """The raw model in onnxruntime, with every tensor on the ways back from its outputs made visible."""
    try:
        return Session(graph.model, graph.folder, show)
    except CannotRun as error:
        raise EnergyAlignError(
            f"onnxruntime cannot load {name}, so that nothing could be verified ({error}): export the model for an "
            "opset that it supports, or install a newer onnxruntime."
        ) from error


def _first_verified(
    graph: Graph, logits: FoundLogits, shifts: Shifts | MultilabelShifts, probes: Probes, name: str
) -> tuple[Edit, float]:
    """The first way of editing that does in onnxruntime what it should, and the largest error of a logit there."""
    outputs = {one.name for one in graph.proto.output} & set(probes.raw[0])
    unrelated = outputs - graph.downstream(logits.tensor)
    trouble = ""
    for edit in possible_edits(graph, logits, probes.raw[0]):
        stamp(edit.model, shifts)
        try:
            edited = Session(edit.model, graph.folder, {logits.tensor})
            after = [edited.run(one) for one in probes.inputs]
            return edit, verify(probes.raw, after, logits, unrelated)
        except (CannotRun, NotAligned) as error:
            trouble = str(error)
    raise EnergyAlignError(_not_aligned(name, trouble))


def _verified_renormalised(
    graph: Graph, node: ClassifierNode, shifts: Shifts, probes: Probes, name: str
) -> tuple[Edit, float]:
    """The model with corrected probabilities and labels, and the largest error of a probability in onnxruntime."""
    values = node.shifts_by_name(shifts, name)
    edit = renormalised(graph, node, values, probes.raw[0][node.probabilities].dtype)
    stamp(edit.model, shifts)
    outputs = {one.name for one in graph.proto.output} & set(probes.raw[0])
    unrelated = outputs - graph.downstream(node.probabilities) - graph.downstream(node.labels)
    try:
        edited = Session(edit.model, graph.folder, _shown(node))
        after = [edited.run(one) for one in probes.inputs]
        return edit, node.verify(probes.raw, after, values, sorted(unrelated))
    except (CannotRun, NotAligned) as error:
        raise EnergyAlignError(_not_aligned(name, str(error))) from error


def _not_aligned(name: str, trouble: str) -> str:
    return (
        f"{name} could not be aligned, and nothing was written: with the shifts in it, {trouble}. Correct its logits "
        "with `energyalign apply` instead."
    )
