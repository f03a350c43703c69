"""The largest corrected logit, compared with NumPy's sum and argmax."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from energyalign.core._engine import largest
from energyalign.core._engine.largest import largest_corrected

FEW_AND_MANY = [2, 3, 12, 13, 40]
# Few distinct values, so that there are ties; large values round shifts away in single precision.
VALUES = st.sampled_from([-np.inf, -1e8, -1.0, -0.0, 0.0, 0.5, 1.0, 1e8, np.inf])


@given(st.data())
def test_the_first_of_the_largest(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    shape = data.draw(array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=20).filter(lambda shape: shape[1] > 1))
    logits = data.draw(arrays(dtype, shape, elements=VALUES))
    shifts = data.draw(arrays(np.float64, shape[1], elements=st.sampled_from([-1.0, 0.0, 0.5, 1.0])))
    classes, undefined = largest_corrected(logits, shifts)
    assert not undefined
    np.testing.assert_array_equal(classes, (logits + shifts.astype(dtype)).argmax(axis=1))


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(largest, "_PIECE_NUMBERS", 200)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("n_classes", FEW_AND_MANY)
@pytest.mark.parametrize("n_rows", [0, 1, 99, 100, 1001])
@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray, lambda array: array[::-1]])
def test_in_pieces_as_in_one(n_classes: int, n_rows: int, layout: object) -> None:
    logits = layout(np.random.default_rng(0).normal(size=(n_rows, n_classes)))  # type: ignore[operator]
    shifts = np.linspace(-1, 1, n_classes)
    classes, undefined = largest_corrected(logits, shifts)
    assert not undefined
    np.testing.assert_array_equal(classes, (logits + shifts).argmax(axis=1))


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("n_classes", FEW_AND_MANY)
@pytest.mark.parametrize("row", [0, 99, 249])
@pytest.mark.parametrize("column", [0, 1, -1])
def test_a_nan_is_seen_wherever_it_stands(n_classes: int, row: int, column: int) -> None:
    logits = np.random.default_rng(0).normal(size=(250, n_classes))
    logits[row, column] = np.nan
    assert largest_corrected(logits, np.zeros(n_classes))[1]


@pytest.mark.parametrize("n_classes", FEW_AND_MANY)
def test_half_precision_is_added_in_single(n_classes: int) -> None:
    logits: npt.NDArray[np.float16] = np.full((5, n_classes), 100.0, dtype=np.float16)
    shifts = np.zeros(n_classes)
    shifts[-1] = 0.01  # 100.01 is 100 in half precision
    assert largest_corrected(logits, shifts)[0].tolist() == [n_classes - 1] * 5
