"""Conversion to ONNX with skl2onnx: the graph of the classifier, plus shifts, softmax and labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from skl2onnx import update_registered_converter
from skl2onnx._parse import _parse_sklearn
from skl2onnx.algebra.onnx_ops import OnnxAdd, OnnxArgMax, OnnxCast, OnnxGather, OnnxLog, OnnxMax, OnnxMul, OnnxSoftmax
from skl2onnx.common.data_types import Int64TensorType, StringTensorType, guess_proto_type, guess_tensor_type
from skl2onnx.proto import onnx_proto
from sklearn.frozen import FrozenEstimator

from energyalign.core.errors import EnergyAlignError
from energyalign.core.multilabel import MultilabelShifts
from energyalign.core.probabilities import MIN_PROBABILITY
from energyalign.sklearn.scores import prefers_decision

_DTYPES = {onnx_proto.TensorProto.FLOAT: np.float32, onnx_proto.TensorProto.DOUBLE: np.float64}


def register(kind: type) -> None:
    """Register the class with skl2onnx. Accept its common option zipmap=False: the outputs are plain tensors."""
    options = {"zipmap": [False]}
    update_registered_converter(kind, kind.__name__, calculate_shapes, convert, parser=_parse, options=options)


def _parse(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:  # noqa: ARG001
    operator = scope.declare_local_operator(type(model).__name__, model)
    operator.inputs = inputs
    operator.outputs.append(scope.declare_local_variable("label", Int64TensorType()))
    operator.outputs.append(scope.declare_local_variable("probabilities", guess_tensor_type(inputs[0].type)))
    return operator.outputs


def calculate_shapes(operator: Any) -> None:
    """Declare the outputs: a label, and one probability per class."""
    model = operator.raw_operator
    if isinstance(model.shifts_, MultilabelShifts):
        raise EnergyAlignError(
            "conversion of independent labels with skl2onnx is not supported: convert the classifier estimator_, and "
            "add the shifts to its graph with energyalign onnx."
        )
    n_samples, classes = operator.inputs[0].get_first_dimension(), _labels(model)
    kind = Int64TensorType if classes.dtype == np.int64 else StringTensorType
    operator.outputs[0].type = kind([n_samples])
    operator.outputs[1].type.shape = [n_samples, len(classes)]


def _labels(model: Any) -> NDArray[Any]:
    """Return the classes as strings or int64, the label types of ONNX."""
    return np.asarray(model.classes_.astype(str if model.classes_.dtype.kind in "UO" else np.int64))


def convert(scope: Any, operator: Any, container: Any) -> None:
    """Add the nodes of a fitted `EnergyAlignedClassifier`."""
    model, version = operator.raw_operator, container.target_opset
    label, probabilities = operator.outputs
    number = guess_proto_type(probabilities.type)
    logits = _logits(model, scope, operator, container)
    shifts = model.shifts_.values.astype(_DTYPES[number])
    aligned = OnnxAdd(logits, shifts, op_version=version)
    softmax = OnnxSoftmax(aligned, axis=1, op_version=version, output_names=[probabilities])
    largest = OnnxArgMax(aligned, axis=1, keepdims=0, op_version=version)
    labels = OnnxGather(_labels(model), largest, axis=0, op_version=version, output_names=[label])
    for output in (softmax, labels):
        output.add_to(scope, container)


def _logits(model: Any, scope: Any, operator: Any, container: Any) -> Any:
    """Add the nodes of `class_logits`, up to a constant per sample that softmax removes."""
    classifier, n_classes, version = _unwrap(model.estimator_), len(model.classes_), container.target_opset
    last = classifier
    while hasattr(last, "steps"):
        last = _unwrap(last.steps[-1][1])
    raw = prefers_decision(classifier, n_classes)
    # An SVC with probability=True returns probabilities despite the option.
    if raw and (not container.has_options(last, "raw_scores") or getattr(last, "probability", False) is True):
        raise EnergyAlignError(
            f"skl2onnx cannot export the decision function of {last}, which was aligned: use a classifier that has its "
            "option raw_scores (an SVC without probability=True), or one without decision_function."
        )
    options = {"zipmap": False, "raw_scores": raw}
    options = {name: value for name, value in options.items() if container.has_options(last, name)}
    for holder in (scope, container):
        holder.add_options(id(last), options)
    _, scores = _parse_sklearn(scope, classifier, operator.inputs)
    number = guess_proto_type(operator.outputs[1].type)
    scores = OnnxCast(scores, to=number, op_version=version)
    if not raw:
        smallest = np.array([MIN_PROBABILITY], dtype=_DTYPES[number])
        return OnnxLog(OnnxMax(scores, smallest, op_version=version), op_version=version)
    # For two classes skl2onnx returns plus and minus the decision: the logits are half of it.
    half = np.array([0.5], dtype=_DTYPES[number])
    return OnnxMul(scores, half, op_version=version) if n_classes == 2 else scores


def _unwrap(classifier: Any) -> Any:
    """Return the classifier inside a frozen estimator or a parameter search."""
    if isinstance(classifier, FrozenEstimator):
        return _unwrap(classifier.estimator)
    return _unwrap(classifier.best_estimator_) if hasattr(classifier, "best_estimator_") else classifier
