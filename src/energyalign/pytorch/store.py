"""Store logits that are read more than once: in memory, and in a temporary file beyond a limit."""

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
    """Blocks of logits, with their labels if they have any.

    Parameters
    ----------
    bytes_in_memory : int, default=2**30
        Maximum size in memory. Further blocks go to an unnamed temporary file, which vanishes with the store, however
        the process ends.
    """

    def __init__(self, bytes_in_memory: int = BYTES_IN_MEMORY) -> None:
        self.blocks: list[Array] = []
        self.labels: list[torch.Tensor | None] = []
        self.samples: list[torch.Tensor | None] = []
        self._room = bytes_in_memory
        self._file: IO[bytes] | None = None

    def append(self, logits: torch.Tensor, labels: torch.Tensor | None, samples: torch.Tensor | None = None) -> None:
        """Append a block. Half precision becomes float32; float64 stays.

        If samples have several rows (tokens, pixels), `samples` are their sample indices, from 0 in each block.
        """
        dtype = torch.float64 if logits.dtype == torch.float64 else torch.float32
        # A copy: the model may reuse the memory, and a view would keep its whole base in memory.
        block = logits.detach().to("cpu", dtype, copy=True).contiguous().numpy()
        self._room -= block.nbytes
        self.blocks.append(block if self._room >= 0 else self._spill(block))
        self.labels.append(None if labels is None else labels.to("cpu", torch.int64))
        self.samples.append(None if samples is None else samples.to("cpu", torch.int64))

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return sum(len(block) for block in self.blocks)

    def all_labels(self) -> Ints | None:
        """Return the labels of all samples, or None if no block has any."""
        known = [labels for labels in self.labels if labels is not None]
        if not known:
            return None
        if [len(labels) for labels in known] != [len(block) for block in self.blocks]:
            raise EnergyAlignError(
                "every batch must have one label per sample, or no batch may have labels: got batches with and without."
            )
        return np.asarray(torch.cat(known).numpy())

    def groups(self) -> Ints | None:
        """Return the sample index of each row, over all blocks; None if every row is a sample."""
        first, groups = 0, []
        for block, samples in zip(self.blocks, self.samples, strict=True):
            own = np.arange(len(block)) if samples is None else samples.numpy()
            groups.append(first + own)
            first += int(own.max()) + 1
        return None if all(samples is None for samples in self.samples) else np.concatenate(groups)

    def read(self) -> Sequence[Array]:
        """Return the blocks in the order in which they were appended."""
        return self.blocks

    def _spill(self, block: np.ndarray[Any, Any]) -> Array:
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
                f"cannot write the logits to a temporary file: {error}. Free some space in {tempfile.gettempdir()}, "
                "set TMPDIR to a folder with more, or give fewer samples."
            ) from error
