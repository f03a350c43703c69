"""Add shifts to ONNX files: the exported model returns aligned logits, wherever it is deployed."""

from __future__ import annotations

import os

from energyalign.core.errors import EnergyAlignError

# onnxruntime would store an identifier of this machine in the home directory, and send statistics to Microsoft.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

try:
    # Absolute imports: these are the libraries, not this package.
    import onnx as _onnx  # noqa: F401
    import onnxruntime as _onnxruntime  # noqa: F401
except ImportError as error:
    raise EnergyAlignError(
        f"ONNX files need onnx and onnxruntime ({error}): pip install 'energyalign[onnx]'."
    ) from error

from energyalign.onnx.align import AlignedOnnx, align_onnx
from energyalign.onnx.probes import read_probe

__all__ = ["AlignedOnnx", "align_onnx", "read_probe"]
