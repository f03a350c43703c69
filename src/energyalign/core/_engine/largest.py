"""Fast argmax of logits plus shifts, for large NumPy arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from energyalign.core.arrays import Floats, row_pieces, working_precision

# Pieces of this size stay in the processor's cache: allocating an array as large as the logits would take longer than
# the sums.
_PIECE_NUMBERS = 1 << 16
_FEW_CLASSES = 12


def largest_corrected(logits: npt.NDArray[np.floating], shifts: Floats) -> tuple[npt.NDArray[np.int64], bool]:
    """Return the argmax of logits plus shifts (the first, if tied) of each row, and whether there is a NaN.

    Shifts are added in at least float32, as `Shifts.predict` promises. With a NaN, the classes are undefined.
    """
    rows = max(1, min(len(logits), _PIECE_NUMBERS // logits.shape[1]))
    added = shifts.astype(working_precision(logits[:0]).dtype)
    finder = (_ColumnByColumn if logits.shape[1] <= _FEW_CLASSES else _RowByRow)(added, rows)
    classes, undefined = np.empty(len(logits), dtype=np.int64), False
    for start, piece in row_pieces(logits, rows):
        undefined |= finder.find_largest(piece, classes[start : start + len(piece)])
    return classes, undefined


class _ColumnByColumn:
    """Compares whole columns: up to five times faster than NumPy's argmax for a dozen columns or fewer."""

    def __init__(self, shifts: Floats, rows: int) -> None:
        self._shifts = shifts[:, None]  # arrays, since scalars do not take part in type promotion
        self._best, self._next = np.empty((2, rows), dtype=shifts.dtype)
        self._class, self._candidate = np.empty((2, rows), dtype=np.uint8)
        self._better = np.empty(rows, dtype=bool)

    def find_largest(self, piece: npt.NDArray[np.floating], classes: npt.NDArray[np.int64]) -> bool:
        n = len(piece)
        best, following, better = self._best[:n], self._next[:n], self._better[:n]
        winner, candidate = self._class[:n], self._candidate[:n]
        np.add(piece[:, 0], self._shifts[0], out=best)
        winner[:] = 0
        for number in range(1, len(self._shifts)):
            np.add(piece[:, number], self._shifts[number], out=following)
            np.greater(following, best, out=better)
            np.maximum(best, following, out=best)  # propagates NaN
            # The last column that was better wins.
            np.multiply(better.view(np.uint8), np.uint8(number), out=candidate)
            np.maximum(winner, candidate, out=winner)
        classes[:] = winner
        return bool(np.isnan(best.max()))


class _RowByRow:
    """NumPy's argmax, with the shifts tiled: broadcasting one row would be slower."""

    def __init__(self, shifts: Floats, rows: int) -> None:
        self._shifts = np.tile(shifts, (rows, 1))
        self._corrected = np.empty_like(self._shifts)
        self._rows = np.arange(rows)

    def find_largest(self, piece: npt.NDArray[np.floating], classes: npt.NDArray[np.int64]) -> bool:
        corrected = self._corrected[: len(piece)]
        np.add(piece, self._shifts[: len(piece)], out=corrected)
        corrected.argmax(axis=1, out=classes)  # the first NaN, if any
        return bool(np.isnan(corrected[self._rows[: len(piece)], classes]).any())
