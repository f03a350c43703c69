"""All file readers of the package by name; their dependencies are loaded on request."""

from __future__ import annotations

import importlib

from fuzz_reader import Reader

_MODULES = {
    "fuzz_logit_readers": (
        "logits.npy", "logits.npz", "logits.parquet", "logits.csv", "standard input", "labels", "counts", "priors",
        "clusters", "shifts.json",
    ),
    "fuzz_run_readers": (
        "config.json", "rows.jsonl", "commands.txt", "manifest.json", "checkpoint", "arrays", "stored logits",
        "state.json of a step", "network of a step", "record of a step", "profile of a long tail",
    ),
    "fuzz_data_readers": (
        "CIFAR in binary", "CIFAR in folders", "IDX", "image folders", "image lists", "ImageNet-LT lists",
        "ImageNet validation list", "Parquet of the hub", "archive of a download",
    ),
    "fuzz_onnx_readers": ("ONNX model", "ONNX external data", "ONNX probe"),
}  # fmt: skip
READERS = {name: module for module, names in _MODULES.items() for name in names}


def make_reader(name: str) -> Reader:
    """Make the reader of this name, with its files."""
    made: Reader = importlib.import_module(READERS[name]).READERS[name]()
    return made
