"""Make the logits that the wheel carries from those in this folder: python results/package.py"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from energyalign.experiments.engine.stored import find_runs
from energyalign.experiments.train.tensor_file import load_arrays

HERE = Path(__file__).parent
RUN = HERE / "cifar100-lt-100" / "ce" / "seed-0"
FILE = HERE.parent / "src" / "energyalign" / "datasets" / "cifar100_lt.npz"


def packaged() -> dict[str, NDArray[np.generic]]:
    """The arrays of the file, as small as they can be."""
    (run,) = find_runs([RUN])
    outputs, evidence = run.outputs(), load_arrays(RUN / "evidence-none-50.safetensors")
    return {
        "evidence": evidence["logits"],
        "evidence_labels": evidence["labels"].astype(np.uint8),
        "test": outputs.logits.astype(np.float16),
        "test_labels": outputs.labels.astype(np.uint8),
        "counts": run.counts().astype(np.uint16),
        "class_names": np.array(run.class_names),
    }


if __name__ == "__main__":
    np.savez_compressed(FILE, **packaged())  # type: ignore[arg-type]
