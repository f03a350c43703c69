"""Inputs to verify a model with: random inputs that fit its signature, or the user's inputs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from energyalign.core.errors import EnergyAlignError
from energyalign.files.checks import InputFile
from energyalign.files.npz import read_arrays
from energyalign.onnx.comparing import Values
from energyalign.onnx.runtime import CannotRun, Session

_DRAWS = 3
_BATCHES = (3, 1)  # some graphs accept only one sample, whatever their signature says
_SIZES = (16, 32, 64, 128, 224, 256, 384)  # for dynamic axes, such as tokens and pixels: the first that runs is used
_TYPES = {"float": "float32", "double": "float64"}  # onnxruntime's names that differ from NumPy's

Shapes: TypeAlias = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Probes:
    """Inputs of the raw model, and the values of its tensors for them."""

    inputs: list[Values]
    raw: list[Values]


def random_probes(session: Session, n_classes: int, name: str) -> Probes:
    """Run the model on random inputs, the same every time.

    Parameters
    ----------
    session : Session
    n_classes : int
        No dynamic axis gets this length, so that classes are not confused with tokens and pixels.
    name : str
        Name of the model in messages.
    """
    problem = "its inputs have types that cannot be drawn"
    for shapes in _possible_shapes(session, n_classes):
        rng = np.random.default_rng(0)
        try:
            inputs = [{one.name: _draw(rng, one, shapes[one.name]) for one in session.inputs} for _ in range(_DRAWS)]
            return Probes(inputs, [session.run(one) for one in inputs])
        except (CannotRun, TypeError) as error:
            problem = str(error)
    raise EnergyAlignError(
        f"{name} does not run on random inputs ({problem}): give valid inputs with --probe inputs.npz (probe=... in "
        f"Python), one array for each of {_signature(session)}."
    )


def given_probe(session: Session, given: Mapping[str, npt.ArrayLike], name: str) -> Probes:
    """Run the model on the user's inputs, converted to its types."""
    needed = {one.name: one for one in session.inputs}
    if set(given) != set(needed):
        raise EnergyAlignError(
            f"the probe must have one array for each input of {name}, {_signature(session)}, got {sorted(given)}."
        )
    try:
        inputs = {key: np.asarray(given[key]).astype(_dtype(one), casting="same_kind") for key, one in needed.items()}
        return Probes([inputs], [session.run(inputs)])
    except (CannotRun, TypeError) as error:
        raise EnergyAlignError(
            f"{name} does not run on the probe ({error}): expected {_signature(session)}."
        ) from error


def read_probe(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """Read the arrays of a .npz file, one for each input of the model, by name."""
    with InputFile(Path(path), str(path), "a .npz archive").open() as stream:
        is_single = stream.read(len(np.lib.format.MAGIC_PREFIX)) == np.lib.format.MAGIC_PREFIX
    if is_single:
        raise EnergyAlignError(f"{path} must be a .npz file with one array per input, by name (numpy.savez), got .npy.")
    return read_arrays(Path(path))


def _possible_shapes(session: Session, n_classes: int) -> Iterator[Shapes]:
    """Yield shapes of all inputs; dynamic axes of the same name have the same length."""
    tried: list[Shapes] = []
    batch_names = {one.shape[0] for one in session.inputs if one.shape and isinstance(one.shape[0], str)}
    for batch in _BATCHES:
        for size in _SIZES:
            if size == n_classes:
                continue
            shapes = {
                one.name: tuple(
                    length if isinstance(length, int) else batch if axis == 0 or length in batch_names else size
                    for axis, length in enumerate(one.shape)
                )
                for one in session.inputs
            }
            if shapes not in tried:
                tried.append(shapes)
                yield shapes


def _draw(rng: np.random.Generator, signature: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """Draw standard normal numbers; 0 and 1 for integers, which are in any vocabulary; ones for a mask."""
    dtype = _dtype(signature)
    if dtype.kind == "f":
        return np.asarray(rng.normal(size=shape)).astype(dtype)
    if "mask" in signature.name.lower():
        return np.ones(shape, dtype)
    return np.asarray(rng.integers(0, 2, size=shape)).astype(dtype)


def _dtype(signature: Any) -> np.dtype[Any]:
    kind = signature.type.removeprefix("tensor(").removesuffix(")")
    try:
        dtype: np.dtype[Any] = np.dtype(_TYPES.get(kind, kind))
    except TypeError as error:  # text, sequences, maps, bfloat16
        raise TypeError(f"its input {signature.name!r} holds {signature.type}") from error
    return dtype


def _signature(session: Session) -> str:
    return ", ".join(f"{one.name!r} {one.type} {one.shape}" for one in session.inputs)
