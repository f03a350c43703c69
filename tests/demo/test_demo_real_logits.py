"""The table of real logits agrees with the published rows."""

from pathlib import Path

import pytest

from energyalign.demo.real_logits import CORRECTIONS, real_logits
from energyalign.experiments.engine.stored import measured_runs

RUN = Path(__file__).parents[2] / "results" / "cifar100-lt-100" / "ce" / "seed-0"


@pytest.mark.skipif(not RUN.exists(), reason="results/ is in the repository only")
def test_numbers_are_those_of_results():
    (run,) = measured_runs([RUN])
    rows = {row.corrector: row for row in run.rows if str(row.evidence) in ("None", "none x 50")}
    (table,) = real_logits().tables
    assert [line.method for line in table.lines] == list(CORRECTIONS)
    for line in table.lines[:-1]:  # except auto, which may choose differently from the version that measured the rows
        for cell, column in zip(line.cells, table.columns, strict=True):
            assert cell.mean == pytest.approx(100 * rows[line.method].accuracy(column.title), abs=0.3)
