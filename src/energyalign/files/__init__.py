"""Logits, labels, counts and priors from files, and corrected logits back into files.

Nothing here unpickles, and nothing but `EnergyAlignError` is raised for a bad file.
"""

from __future__ import annotations

from energyalign.files.shards import ShardSet, open_shards
from energyalign.files.vectors import read_assignment, read_counts, read_labels, read_names
from energyalign.files.writer import MatrixWriter, matrix_writer

__all__ = [
    "MatrixWriter",
    "ShardSet",
    "matrix_writer",
    "open_shards",
    "read_assignment",
    "read_counts",
    "read_labels",
    "read_names",
]
