"""Sums over samples, in parts that can be added up."""

from __future__ import annotations

from typing import Self

import numpy as np

from energyalign.core.arrays import Floats


class Sums:
    """Some sums that grow together, each an array of its own shape.

    Parameters
    ----------
    *shapes : tuple of int
        One for each sum.
    """

    def __init__(self, *shapes: tuple[int, ...]) -> None:
        self.values: tuple[Floats, ...] = tuple(np.zeros(shape) for shape in shapes)

    def add(self, *terms: Floats | float) -> None:
        """Add to each sum a term of its own."""
        for value, term in zip(self.values, terms, strict=True):
            value += term  # noqa: PLW2901, it is added in place

    def merge(self, other: Self) -> None:
        """Add all that `other` has added up."""
        self.add(*other.values)
