"""From labels as files have them, numbers or names, to class indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from energyalign.core.errors import EnergyAlignError, some_of
from energyalign.files.checks import is_number

_REMEDY = "Write labels as class indices (0, 1, 2, ...) or as class names."


def label_indices(values: NDArray[Any], class_names: Sequence[str] | None, source: str) -> NDArray[np.int64]:
    """Class indices for the labels that were read from `source`.

    Numbers are indices and must be whole; text is looked up in `class_names`, or read as numbers if it is
    nothing but numbers. Whether an index exists is for the caller to check, who knows the classes.
    """
    if not len(values):
        raise EnergyAlignError(f"{source} holds no labels: write one for each row of logits.")
    kind = values.dtype.kind
    if kind in "iuf":
        return _whole(values, source)
    if kind == "O":
        _refuse_first(values, np.array([not isinstance(value, str) for value in values]), source)
    elif kind != "U":
        raise EnergyAlignError(f"{source} holds {values.dtype}, which is no type for labels. {_REMEDY}")
    # There are few distinct names, however many samples there are.
    codes: dict[str, int] = {}
    inverse: NDArray[np.int64] = np.array([codes.setdefault(text, len(codes)) for text in values.tolist()])
    distinct = list(codes)
    indices = {name: index for index, name in enumerate(class_names or ())}
    if all(is_number(text) for text in distinct):
        numbers = np.array([float(text) for text in distinct])
        _refuse_ambiguous(distinct, numbers, indices, source)
        return _whole(numbers[inverse], source)
    if class_names is None:
        texts = [repr(text) for text in sorted(distinct)]
        raise EnergyAlignError(
            f"{source} holds names ({some_of(texts)}), but the logits do not name their classes. Write the "
            "labels as class indices (0, 1, 2, ...), or give logits whose columns are named."
        )
    found = np.array([indices.get(text, -1) for text in distinct], dtype=np.int64)[inverse]
    _refuse_first(values, found < 0, source)
    return found


def _whole(values: NDArray[Any], source: str) -> NDArray[np.int64]:
    """`values` as int64, if that changes none of them."""
    with np.errstate(invalid="ignore"):  # NaN and inf become some integer that they are not equal to
        whole: NDArray[np.int64] = values.astype(np.int64)
    _refuse_first(values, whole != values, source)
    return whole


def _refuse_first(values: NDArray[Any], bad: NDArray[np.bool_], source: str) -> None:
    """Raise the error that names the first of the `bad` labels, if there is one."""
    if bad.any():
        position = int(np.argmax(bad))
        raise EnergyAlignError(
            f"{source}: label {str(values[position])!r} at position {position} (counted from 0) is neither a "
            f"class index nor the name of a class. {_REMEDY}"
        )


def _refuse_ambiguous(texts: list[str], numbers: NDArray[np.float64], indices: dict[str, int], source: str) -> None:
    """Refuse text such as 1, 2, 3 for classes that are named 1, 2, 3 and have the indices 0, 1, 2."""
    for text, number in zip(texts, numbers, strict=True):
        if text in indices and indices[text] != number:
            raise EnergyAlignError(
                f"{source}: label {text} is the name of class {indices[text]}, but may also mean class "
                f"{text}. Name the classes with words, or give the labels as integers in .npy or .json."
            )
