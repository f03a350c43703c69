"""Run models in onnxruntime, and return tensors inside the graph too."""

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

_ONLY_FATAL = 4  # log level: errors are raised, not printed
PATIENCE = 10.0  # seconds for a terminated run to finish the current node
_NUMPY_TENSOR = re.compile(r"tensor\((float|double|float16|u?int\d+|bool|string)\)")
_DATA_FOLDER = "session.model_external_initializers_file_folder_path"


class CannotRun(EnergyAlignError):
    """onnxruntime refused a model or an input; the message is its reason, in one line."""


class Input(NamedTuple):
    """An input of a model; dynamic axes are text, or None."""

    name: str
    type: str
    shape: tuple[int | str | None, ...]


class Session:
    """A model loaded on the CPU.

    Parameters
    ----------
    model : Model
        The model; it is not changed.
    folder : Path
        Folder of its external data.
    show : collection of str, default=()
        Tensors that `run` returns along with the outputs.
    """

    def __init__(self, model: Model, folder: Path, show: Collection[str] = ()) -> None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = _ONLY_FATAL
        options.add_session_config_entry(_DATA_FOLDER, str(folder.absolute()))
        try:
            # The fallback would try the CPU once more, and print to standard output.
            self._session = onnxruntime.InferenceSession(
                _bytes_showing(model, show), options, providers=["CPUExecutionProvider"], enable_fallback=0
            )
            # Read here, because it raises if names in a damaged file are not text.
            self.inputs = [Input(one.name, one.type, tuple(one.shape)) for one in self._session.get_inputs()]
            self.output_types: dict[str, str] = {one.name: one.type for one in self._session.get_outputs()}
        except Exception as error:  # onnxruntime's errors have no base class of their own
            raise CannotRun(_reason(error)) from error

    def run(self, inputs: Values) -> Values:
        """Return every output that is a tensor of a NumPy type, by name."""
        names = [name for name, kind in self.output_types.items() if _NUMPY_TENSOR.fullmatch(kind)]
        options = onnxruntime.RunOptions()
        options.log_severity_level = _ONLY_FATAL
        answer: Future[Any] = Future()

        def work() -> None:
            try:
                answer.set_result(self._session.run(names, inputs, options))
            except Exception as error:
                answer.set_exception(error)

        # In a thread: a loop in the graph may never end, and this one must be able to receive Ctrl-C.
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
    """Serialise the model with these tensors among its outputs."""
    outputs = model.graph.output
    own = len(outputs)
    outputs.extend(onnx.ValueInfoProto(name=name) for name in set(show) - {output.name for output in outputs})
    try:
        return model.SerializeToString()
    finally:
        del outputs[own:]  # a copy of the model would take twice the memory


def _reason(error: Exception) -> str:
    """Return the message of onnxruntime without error code, source file and C++ signature."""
    text = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", str(error).strip())
    text = re.sub(r"^(Failed to load model with error: )?/\S+:\d+ .*?\) (?=[A-Z])", "", text)
    return " ".join(text.split())[:300].rstrip(". ") or type(error).__name__
