"""Which class has the largest corrected logit, for large NumPy arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from energyalign.core.arrays import Floats, row_pieces, working_precision

# What is computed of so many numbers stays in the processor's cache: a second array as large as the first would cost
# more than the sums.
_PIECE_NUMBERS = 1 << 16
_FEW_CLASSES = 12


def largest_corrected(logits: npt.NDArray[np.floating], shifts: Floats) -> tuple[npt.NDArray[np.int64], bool]:
    """Per row of `logits`, the first class whose logit plus shift is the largest; and whether a NaN was among them.

    Added in at least float32, as `Shifts.predict` promises. Where there is a NaN, the classes mean nothing.
    """
    rows = max(1, min(len(logits), _PIECE_NUMBERS // logits.shape[1]))
    added = shifts.astype(working_precision(logits[:0]).dtype)
    look_at = (_ColumnByColumn if logits.shape[1] <= _FEW_CLASSES else _RowByRow)(added, rows)
    classes, undefined = np.empty(len(logits), dtype=np.int64), False
    for start, piece in row_pieces(logits, rows):
        undefined |= look_at.largest(piece, classes[start : start + len(piece)])
    return classes, undefined


class _ColumnByColumn:
    """A few operations on each column, many rows at a time: NumPy's argmax begins anew with every row, however short.

    Up to a dozen columns this is up to five times as fast.
    """

    def __init__(self, shifts: Floats, rows: int) -> None:
        self._shifts = shifts[:, None]  # arrays of one number each: a bare number would not decide about the precision
        self._best, self._next = np.empty((2, rows), dtype=shifts.dtype)
        self._class, self._candidate = np.empty((2, rows), dtype=np.uint8)
        self._better = np.empty(rows, dtype=bool)

    def largest(self, piece: npt.NDArray[np.floating], classes: npt.NDArray[np.int64]) -> bool:
        n = len(piece)
        best, following, better = self._best[:n], self._next[:n], self._better[:n]
        found, candidate = self._class[:n], self._candidate[:n]
        np.add(piece[:, 0], self._shifts[0], out=best)
        found[:] = 0
        for number in range(1, len(self._shifts)):
            np.add(piece[:, number], self._shifts[number], out=following)
            np.greater(following, best, out=better)
            np.maximum(best, following, out=best)  # stays NaN from the first one on
            # Numbers of columns rise, so that the largest that was ever better is the last.
            np.multiply(better.view(np.uint8), np.uint8(number), out=candidate)
            np.maximum(found, candidate, out=found)
        classes[:] = found
        return bool(np.isnan(best.max()))


class _RowByRow:
    """NumPy's argmax, with shifts that are there for each row: adding one row of them to all would take longer."""

    def __init__(self, shifts: Floats, rows: int) -> None:
        self._shifts = np.tile(shifts, (rows, 1))
        self._corrected = np.empty_like(self._shifts)
        self._rows = np.arange(rows)

    def largest(self, piece: npt.NDArray[np.floating], classes: npt.NDArray[np.int64]) -> bool:
        corrected = self._corrected[: len(piece)]
        np.add(piece, self._shifts[: len(piece)], out=corrected)
        corrected.argmax(axis=1, out=classes)  # a NaN, if there is one
        return bool(np.isnan(corrected[self._rows[: len(piece)], classes]).any())
