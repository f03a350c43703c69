"""Read logits, labels, counts and priors from files; write aligned logits.

No file is unpickled, and a bad file always raises `EnergyAlignError`.
"""

from __future__ import annotations

from energyalign.files.shards import ShardSet, open_shards
from energyalign.files.vectors import read_assignment, read_counts, read_labels, read_matrix, read_names
from energyalign.files.writer import MatrixWriter, matrix_writer

__all__ = [
    "MatrixWriter",
    "ShardSet",
    "matrix_writer",
    "open_shards",
    "read_assignment",
    "read_counts",
    "read_labels",
    "read_matrix",
    "read_names",
]
