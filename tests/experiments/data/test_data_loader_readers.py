"""Workers that read images survive signals to their group, but end with their parent."""

from __future__ import annotations

from pathlib import Path

import pytest
from warm_process import WarmProcess

from energyalign import EnergyAlignError
from energyalign.experiments.data.loader import plain_errors

SCRIPT = """
import os, signal, sys
from torch.utils.data import DataLoader
from energyalign.experiments.data.loader import leave_signals_to_the_parent

class Numbers:
    def __len__(self):
        return 100
    def __getitem__(self, index):
        if index == 1:  # a scheduler, or Ctrl-C in a terminal: to all of the group
            os.killpg(0, signal.SIGTERM)
            os.killpg(0, signal.SIGINT)
        return index

for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: None)
numbers = iter(DataLoader(Numbers(), num_workers=1, batch_size=10, worker_init_fn=leave_signals_to_the_parent))
total = sum(int(next(numbers).sum()) for _ in range(8))
assert total == sum(range(80)), total
sys.exit(3)  # as after an error, with batches that nobody will ask for
"""


def test_they_read_on_after_a_signal_to_all_and_end_with_their_parent(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    process = WarmProcess([tmp_path / "script.py"], tmp_path, tmp_path / "logs")
    assert process.wait() == 3, process.stderr


def test_of_an_error_in_a_reader_the_line_is_told_that_is_meant_for_people() -> None:
    sent = (
        "Caught EnergyAlignError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n"
        "energyalign.core.errors.EnergyAlignError: cannot read the image a.png. Get the file again.\n"
    )
    with (
        pytest.raises(EnergyAlignError, match=r"^cannot read the image a\.png\. Get the file again\.$"),
        plain_errors(),
    ):
        raise EnergyAlignError(sent)
