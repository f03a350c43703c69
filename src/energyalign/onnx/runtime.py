"""Running models in onnxruntime, with tensors inside the graph made visible."""

from __future__ import annotations

import re
from collections.abc import Collection
from concurrent.futures import Future, wait
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime

from energyalign.core.errors import EnergyAlignError
from energyalign.onnx.comparing import Values
from energyalign.onnx.graph import Model

_ONLY_FATAL = 4  # what goes wrong becomes an error of ours; nothing is printed besides
PATIENCE = 10.0  # seconds for a run that is told to end, which it does after the node that it is at
_NUMPY_TENSOR = re.compile(r"tensor\((float|double|float16|u?int\d+|bool|string)\)")
_DATA_FOLDER = "session.model_external_initializers_file_folder_path"


class CannotRun(EnergyAlignError):
    """onnxruntime refused a model or an input; the message is its reason, in one line."""


class Input(NamedTuple):
    """What a model takes under a name; a length that is free is text, or None."""

    name: str
    type: str
    shape: tuple[int | str | None, ...]


class Session:
    """A model, ready to run on the processor.

    Parameters
    ----------
    model : Model
        As it is; tensors to show are outputs of what onnxruntime gets, not of the model.
    folder : Path
        Where data outside the file is.
    show : names of tensors, optional
        To be returned by `run` along with the outputs.
    """

    def __init__(self, model: Model, folder: Path, show: Collection[str] = ()) -> None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = _ONLY_FATAL
        options.add_session_config_entry(_DATA_FOLDER, str(folder.absolute()))
        try:
            # Its fallback from the processor is the processor, once more, and lines on standard output.
            self._session = onnxruntime.InferenceSession(
                _bytes_showing(model, show), options, providers=["CPUExecutionProvider"], enable_fallback=0
            )
            # Read out at once: names in a damaged file may be no text, and asking for them is an error then.
            self.inputs = [Input(one.name, one.type, tuple(one.shape)) for one in self._session.get_inputs()]
            self.output_types: dict[str, str] = {one.name: one.type for one in self._session.get_outputs()}
        except Exception as error:  # onnxruntime's errors have no base class of their own
            raise CannotRun(_reason(error)) from error

    def run(self, inputs: Values) -> Values:
        """Every output that is a tensor of a type that NumPy has, by name."""
        names = [name for name, kind in self.output_types.items() if _NUMPY_TENSOR.fullmatch(kind)]
        options = onnxruntime.RunOptions()
        options.log_severity_level = _ONLY_FATAL
        answer: Future[Any] = Future()

        def work() -> None:
            try:
                answer.set_result(self._session.run(names, inputs, options))
            except Exception as error:
                answer.set_exception(error)

        # Not here: a loop in the graph may have no end, and Ctrl-C is heard by a thread that runs Python or waits.
        try:
            Thread(target=work, daemon=True).start()
            arrays = answer.result()
        except Exception as error:
            raise CannotRun(_reason(error)) from error
        finally:
            if not answer.done():
                options.terminate = True
                wait([answer], PATIENCE)
        return {name: np.asarray(array) for name, array in zip(names, arrays, strict=True)}


def _bytes_showing(model: Model, show: Collection[str]) -> Any:
    """The model as a file would have it, with these tensors among its outputs."""
    outputs = model.graph.output
    own = len(outputs)
    outputs.extend(onnx.ValueInfoProto(name=name) for name in set(show) - {output.name for output in outputs})
    try:
        return model.SerializeToString()
    finally:
        del outputs[own:]  # a copy would be simpler, and twice the memory


def _reason(error: Exception) -> str:
    """What onnxruntime said, without its error code, source file and C++ signature."""
    text = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", str(error).strip())
    text = re.sub(r"^(Failed to load model with error: )?/\S+:\d+ .*?\) (?=[A-Z])", "", text)
    return " ".join(text.split())[:300].rstrip(". ") or type(error).__name__
