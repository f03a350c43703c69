"""No line of the package can run code from a file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import energyalign

ROOT = Path(energyalign.__file__).parent
MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "yaml", "jsonpickle"}
CALLS = {
    "eval", "exec", "compile", "__import__", "torch.load", "torch.jit.load", "torch.hub.load", "numpy.fromregex",
    "pandas.read_pickle", "os.system", "os.popen", "tarfile.TarFile.extractall", "onnx.load",
}  # fmt: skip
METHODS = {"extractall", "load_from_checkpoint", "read_pickle"}  # of whatever object


def forbidden(source: str) -> Iterator[str]:
    """Return the calls in a source text that may load code, with their lines."""
    tree = ast.parse(source)
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            parts = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            yield from (f"line {node.lineno}: import of {part}" for part in parts if part.split(".")[0] in MODULES)
        elif isinstance(node, ast.Call):
            called = _full_name(node.func, names)
            loads = called == "numpy.load" or any(word.arg == "allow_pickle" for word in node.keywords)
            pickles = loads and not any(
                word.arg == "allow_pickle" and isinstance(word.value, ast.Constant) and word.value.value is False
                for word in node.keywords
            )
            if pickles or called in CALLS or called.rpartition(".")[2] in METHODS:
                yield f"line {node.lineno}: {called}"
            if any(word.arg in ("weights_only", "trust_remote_code", "shell") for word in node.keywords):
                yield f"line {node.lineno}: {called} with a dangerous option"


def _full_name(node: ast.expr, names: dict[str, str]) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_full_name(node.value, names)}.{node.attr}"
    return names.get(node.id, node.id) if isinstance(node, ast.Name) else ""


def test_nothing_loads_code() -> None:
    paths = list(ROOT.rglob("*.py"))
    assert len(paths) > 200
    assert {str(path): found for path in paths if (found := list(forbidden(path.read_text())))} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import pickle", "from pickle import loads", "import joblib.memory", "import yaml",
        "import torch as t\nt.load(x)",
        "from torch import load as read\nread(x)", "import numpy as np\nnp.load(x)", "eval(x)", "exec(x)",
        "import numpy as np\nnp.load(x, allow_pickle=True)", "read(x, allow_pickle=flag)", "tar.extractall()",
        "import os\nos.system(x)", "f(x, weights_only=False)", "f(x, shell=True)", "import onnx\nonnx.load(x)",
    ],
)  # fmt: skip
def test_the_search_finds_what_it_looks_for(source: str) -> None:
    assert len(list(forbidden(source))) == 1


def test_the_search_lets_the_harmless_pass() -> None:
    assert not list(forbidden("import numpy as np\nnp.load(x, allow_pickle=False)\njson.load(x)\nmodel.eval()"))
