"""A learning rate that is too large: the run stops, says where, keeps the last good state, and repeats the message."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fault import ended, files_of

pytestmark = [
    pytest.mark.faults,
    pytest.mark.promise("A training with a non-finite loss stops and keeps its last good checkpoint", "trainings"),
]

COMMAND = "longtail digits --head linear --corrector raw --epochs 3 --batch-size 64 --out run --precision"


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
@pytest.mark.parametrize(
    ("factor", "message", "n_checkpoints"),
    [
        (1e10, r"the loss is (nan|inf) in batch \d of epoch 1\.", 0),
        # The loss of every batch is finite; the network after the second epoch is not.
        (1e4, r"the network is not finite after batch 5 of epoch 2 \(.*running_var.*\)\.", 1),
    ],
    ids=["loss", "network"],
)
def test_it_stops_and_keeps_the_last_good_checkpoint(
    factor: float, message: str, n_checkpoints: int, precision: str, tmp_path: Path
) -> None:
    command = [*COMMAND.split(), precision]
    code, told = ended(command, tmp_path / "run", {"lr": factor})
    assert code == 1, told
    last = told.splitlines()[-1]
    assert re.match(rf"energyalign: error: {message} .* from before it: try a smaller learning rate", last), last
    assert "Traceback" not in told
    before = files_of(tmp_path / "run")
    assert len([name for name in before if "checkpoints" in name]) == n_checkpoints
    code, told = ended(command, tmp_path / "run", {"lr": factor})
    assert (code, told.splitlines()[-1]) == (1, last)
    assert files_of(tmp_path / "run") == before
