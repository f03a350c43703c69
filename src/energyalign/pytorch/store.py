"""Logits that are read more than once: in memory while they fit, in a temporary file beyond that."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Sequence
from typing import IO, Any

import numpy as np
import torch

from energyalign.core.arrays import Array, Ints
from energyalign.core.errors import EnergyAlignError

BYTES_IN_MEMORY = 2**30


class LogitStore:
    """Blocks of logits, with the labels of those that have them.

    Parameters
    ----------
    bytes_in_memory : int
        What comes beyond goes to a file that has no name and vanishes with the store, however the process ends.
    """

    def __init__(self, bytes_in_memory: int = BYTES_IN_MEMORY) -> None:
        self.blocks: list[Array] = []
        self.labels: list[torch.Tensor | None] = []
        self.samples: list[torch.Tensor | None] = []
        self._room = bytes_in_memory
        self._file: IO[bytes] | None = None

    def append(self, logits: torch.Tensor, labels: torch.Tensor | None, samples: torch.Tensor | None = None) -> None:
        """Keep a block. Half precision becomes float32; float64 stays.

        Several rows may be of one sample (tokens, pixels): `samples` are its numbers, from 0 in each block.
        """
        kept = torch.float64 if logits.dtype == torch.float64 else torch.float32
        # A copy: the model may use the memory again, and a view would keep all of what it is a view of.
        block = logits.detach().to("cpu", kept, copy=True).contiguous().numpy()
        self._room -= block.nbytes
        self.blocks.append(block if self._room >= 0 else self._spilled(block))
        self.labels.append(None if labels is None else labels.to("cpu", torch.int64))
        self.samples.append(None if samples is None else samples.to("cpu", torch.int64))

    @property
    def n_samples(self) -> int:
        return sum(len(block) for block in self.blocks)

    def all_labels(self) -> Ints | None:
        """The labels of all samples, or None if no block has any."""
        known = [labels for labels in self.labels if labels is not None]
        if not known:
            return None
        if [len(labels) for labels in known] != [len(block) for block in self.blocks]:
            raise EnergyAlignError("some batches have labels and some have none, or not one per sample.")
        return np.asarray(torch.cat(known).numpy())

    def groups(self) -> Ints | None:
        """The sample of each row, counted over all blocks; None if every row is a sample."""
        first, groups = 0, []
        for block, samples in zip(self.blocks, self.samples, strict=True):
            own = np.arange(len(block)) if samples is None else samples.numpy()
            groups.append(first + own)
            first += int(own.max()) + 1
        return None if all(samples is None for samples in self.samples) else np.concatenate(groups)

    def read(self) -> Sequence[Array]:
        """The blocks, in the order in which they came."""
        return self.blocks

    def _spilled(self, block: np.ndarray[Any, Any]) -> Array:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="energyalign-")  # noqa: SIM115 - closed with the store
                weakref.finalize(self, self._file.close)
            offset = self._file.seek(0, 2)
            block.tofile(self._file)
            self._file.flush()
            return np.memmap(self._file, block.dtype, "r", offset, block.shape)
        except OSError as error:
            raise EnergyAlignError(
                f"cannot keep the logits in a temporary file: {error}. Free some space in {tempfile.gettempdir()}, or "
                "set TMPDIR to a folder with more, or give fewer samples."
            ) from error
