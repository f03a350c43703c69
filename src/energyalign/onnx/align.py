"""Write a copy of an ONNX file with shifts added to its logits."""

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
from energyalign.onnx.classifier_node import ClassifierNode, find_classifier_node, renormalise
from energyalign.onnx.edits import Edit, possible_edits
from energyalign.onnx.graph import Graph
from energyalign.onnx.logits import FoundLogits, find_logits, possible_heads, walks_from_outputs
from energyalign.onnx.model_file import copy_data, read_model, refuse_aligned, stamp, write_model
from energyalign.onnx.probes import Probes, given_probe, random_probes
from energyalign.onnx.runtime import CannotRun, Session
from energyalign.onnx.verify import NotAligned, verify


@dataclass(frozen=True)
class AlignedOnnx:
    """How a model was aligned.

    Attributes
    ----------
    how : str
        ``folded``: a bias was changed, and the graph is the same. ``added``: the graph has one more Add node.
        ``renormalised``: shifts are added to the logarithms of the probabilities of a tree ensemble or a linear
        classifier, and labels change accordingly.
    node : str
        The node with that bias, or the new node; if it has no name, its output.
    constant : str
        The initializer, or output of a Constant node, that holds the changed bias or the shifts.
    logits : str
        The tensor with aligned logits; if ``renormalised``, with aligned probabilities.
    outputs : dict from str to str
        The aligned outputs and their forms: ``logits``, ``probabilities``, ``log-probabilities``, ``sigmoids`` or
        ``labels``.
    largest_deviation : float
        Largest deviation in onnxruntime from raw logits + shifts, or from their probabilities.
    n_probes : int
        Number of inputs used to verify that.
    files : tuple of Path
        The files written: the model, and its external data if it has any.
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
    """Write a copy of an ONNX model with shifts added to its logits.

    The shifts are folded into the bias of the node that computes the logits or, if it has none, added by one Add node
    after it. Softmax, sigmoid, labels and everything else computed from the logits change accordingly. The logits may
    belong to classes (per sample, token or pixel), to two classes that share one logit, or to independent labels. Tree
    ensembles and linear classifiers exported by skl2onnx have no logits: their probabilities and labels are aligned.
    Names, opset, dynamic axes and metadata stay. The copy is written only after it was verified in onnxruntime.

    Parameters
    ----------
    model_path : path
        The model; its external data must be in the same folder.
    shifts : Shifts or MultilabelShifts
    out_path : path
        The file to write; must not be `model_path`.
    output : str, default=None
        Graph output with the logits, their softmax or their sigmoids; required if several outputs qualify.
    probe : mapping from input names to arrays, default=None
        A batch to verify with, if the model does not run on random inputs.

    Returns
    -------
    AlignedOnnx

    Raises
    ------
    EnergyAlignError
        If the model cannot be aligned. No file is changed then.
    """
    source, target, name = Path(model_path), Path(out_path), str(model_path)
    model, files = read_model(source)
    check_outputs([target], [file.path for file in files])
    if len(files) > 1 and target.is_symlink():
        raise EnergyAlignError(
            f"{target} must not be a symbolic link, because external data is looked up in the folder of the link: give "
            "the file that it points to."
        )
    refuse_aligned(model, name)
    folder, _copies = copy_data(model, source.parent, files[1:])  # the copies exist as long as the variable
    graph = Graph(model, folder)
    candidates = [(head, walks_from_outputs(graph, output, head.squashes, name)) for head in possible_heads(shifts)]
    with reading(name, "an ONNX model"):
        node = find_classifier_node(graph)
    made = {tensor for _, walks in candidates for walk in walks for tensor in walk.made}
    session = _open(graph, made | _tensors(node), name)
    probes = random_probes(session, shifts.n_classes, name) if probe is None else given_probe(session, probe, name)
    if isinstance(shifts, Shifts) and node is not None and node.has_probabilities(probes.raw, shifts.n_classes):
        edit, deviation = _renormalise(graph, node, shifts, probes, name)
        tensor, outputs = node.probabilities, node.outputs
    else:
        logits = find_logits(candidates, probes.raw, session.output_types, name)
        edit, deviation = _add_shifts(graph, logits, shifts, probes, name)
        tensor, outputs = logits.tensor, logits.outputs
    return AlignedOnnx(
        how=edit.how,
        node=edit.node,
        constant=edit.constant,
        logits=tensor,
        outputs=outputs,
        largest_deviation=deviation,
        n_probes=len(probes.inputs),
        files=write_model(edit.model, folder, target, files),
    )


def _tensors(node: ClassifierNode | None) -> set[str]:
    return set() if node is None else {node.labels, node.probabilities}


def _open(graph: Graph, show: Collection[str], name: str) -> Session:
    """Load the raw model in onnxruntime, with these tensors visible."""
    try:
        return Session(graph.model, graph.folder, show)
    except CannotRun as error:
        raise EnergyAlignError(
            f"onnxruntime cannot load {name} ({error}), so it cannot be verified: export the model for an opset "
            "that onnxruntime supports, or install a newer onnxruntime."
        ) from error


def _add_shifts(
    graph: Graph, logits: FoundLogits, shifts: Shifts | MultilabelShifts, probes: Probes, name: str
) -> tuple[Edit, float]:
    """Return the first edit that passes `verify`, and the largest deviation of its logits."""
    outputs = {one.name for one in graph.proto.output} & set(probes.raw[0])
    unrelated = outputs - graph.downstream(logits.tensor)
    problem = ""
    for edit in possible_edits(graph, logits, probes.raw[0]):
        stamp(edit.model, shifts)
        try:
            edited = Session(edit.model, graph.folder, {logits.tensor})
            after = [edited.run(one) for one in probes.inputs]
            return edit, verify(probes.raw, after, logits, unrelated)
        except (CannotRun, NotAligned) as error:
            problem = str(error)
    raise EnergyAlignError(_not_aligned(name, problem))


def _renormalise(graph: Graph, node: ClassifierNode, shifts: Shifts, probes: Probes, name: str) -> tuple[Edit, float]:
    """Return the verified edit of probabilities and labels, and the largest deviation of a probability."""
    values = node.shifts_by_name(shifts, name)
    edit = renormalise(graph, node, values, probes.raw[0][node.probabilities].dtype)
    stamp(edit.model, shifts)
    outputs = {one.name for one in graph.proto.output} & set(probes.raw[0])
    unrelated = outputs - graph.downstream(node.probabilities) - graph.downstream(node.labels)
    try:
        edited = Session(edit.model, graph.folder, _tensors(node))
        after = [edited.run(one) for one in probes.inputs]
        return edit, node.verify(probes.raw, after, values, sorted(unrelated))
    except (CannotRun, NotAligned) as error:
        raise EnergyAlignError(_not_aligned(name, str(error))) from error


def _not_aligned(name: str, problem: str) -> str:
    return (
        f"{name} cannot be aligned: with the shifts added, {problem}. Nothing was written. Use `energyalign apply` on "
        "its logits instead."
    )
