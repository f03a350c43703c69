"""Array helpers with NumPy, torch and the strict array API."""

from __future__ import annotations

from typing import Any

import array_api_strict
import numpy as np
import pytest
import scipy.sparse
import torch

from energyalign.core.arrays import (
    as_logits,
    is_floating,
    like,
    refuse_bad_value,
    row_pieces,
    to_numpy,
    working_precision,
)
from energyalign.core.errors import EnergyAlignError


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.zeros(2, np.float16), True),
        (np.zeros(2, np.longdouble), True),
        (np.zeros(2, np.int32), False),
        (np.zeros(2, bool), False),
        (np.zeros(2, complex), False),
        (torch.zeros(2, dtype=torch.bfloat16), True),
        (torch.zeros(2, dtype=torch.float16), True),
        (torch.zeros(2, dtype=torch.int8), False),
        (torch.zeros(2, dtype=torch.complex64), False),
        (array_api_strict.zeros(2), True),
        (array_api_strict.zeros(2, dtype=array_api_strict.int64), False),
    ],
)
def test_which_arrays_can_be_logits(array: Any, expected: bool) -> None:
    assert is_floating(array) is expected


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.zeros(2, np.float16), np.float32),
        (np.zeros(2, np.float32), np.float32),
        (np.zeros(2, np.float64), np.float64),
        (np.zeros(2, ">f8"), np.float64),
        (np.zeros(2, ">f4"), np.float32),
        (np.zeros(2, np.longdouble), np.float64),
        (torch.zeros(2, dtype=torch.bfloat16), torch.float32),
        (torch.zeros(2, dtype=torch.float64), torch.float64),
        (array_api_strict.zeros(2, dtype=array_api_strict.float32), array_api_strict.float32),
        (array_api_strict.zeros(2, dtype=array_api_strict.float64), array_api_strict.float64),
    ],
)
def test_working_precision_keeps_what_the_dtype_holds(array: Any, expected: Any) -> None:
    assert working_precision(array).dtype == expected
    assert "float64" in str(working_precision(array, double=True).dtype)


def test_an_array_in_working_precision_is_not_copied() -> None:
    array = np.zeros(3)
    assert working_precision(array) is array


def test_like_follows_namespace_and_dtype() -> None:
    made = like([1.5, 2.5], torch.zeros(1, dtype=torch.bfloat16))
    assert isinstance(made, torch.Tensor)
    assert made.dtype == torch.bfloat16
    assert made.tolist() == [1.5, 2.5]
    assert like([1.5], np.zeros(1, np.float16)).dtype == np.float16


def test_like_shares_no_memory_with_what_must_not_change() -> None:
    frozen = np.array([1.5, 2.5])
    frozen.flags.writeable = False
    made = like(frozen, torch.zeros(1, dtype=torch.float64))
    made += 1
    assert frozen.tolist() == [1.5, 2.5]


def test_to_numpy_detaches() -> None:
    tensor = torch.ones(2, requires_grad=True) * 2
    assert to_numpy(tensor).tolist() == [2.0, 2.0]
    assert to_numpy(array_api_strict.asarray([1.0])).tolist() == [1.0]


def test_pieces_are_the_rows_in_order() -> None:
    block = array_api_strict.reshape(array_api_strict.arange(14.0), (7, 2))
    pieces = list(row_pieces(block, 3))
    assert [start for start, _ in pieces] == [0, 3, 6]
    np.testing.assert_array_equal(np.concatenate([to_numpy(piece) for _, piece in pieces]), to_numpy(block))


def test_a_list_of_rows_is_an_array() -> None:
    assert as_logits([[1.0, 2.0]]).shape == (1, 2)


def test_a_tensor_is_detached_and_shares_its_memory() -> None:
    tensor = torch.zeros(2, 3, requires_grad=True)
    seen = as_logits(tensor)
    assert not seen.requires_grad
    assert seen.data_ptr() == tensor.data_ptr()


def test_sparse_input_is_refused_with_the_remedy() -> None:
    with pytest.raises(EnergyAlignError, match=r"dense array.*call \.toarray\(\)"):
        as_logits(scipy.sparse.csr_matrix(np.eye(3)))


def test_the_first_bad_value_is_named_by_the_numbers_given() -> None:
    block = np.array([[0.0, 1.0], [0.0, np.inf], [np.nan, 0.0]])
    refuse_bad_value(block[:1])
    with pytest.raises(EnergyAlignError, match=r"scores has \+inf at sample 1, class 1"):
        refuse_bad_value(block, name="scores")
    with pytest.raises(EnergyAlignError, match=r"\+inf at sample 40, class 1"):
        refuse_bad_value(block, [30, 40, 50])


def test_minus_infinity_is_not_a_bad_value() -> None:
    refuse_bad_value(np.array([[0.0, -np.inf]]))
