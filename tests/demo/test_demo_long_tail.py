"""The long-tailed part reproduces the numbers in docs/demo.md."""

import numpy as np
import pytest

from energyalign.demo.long_tail import LongTail
from energyalign.demo.part import all_rows
from energyalign.demo.run import measure

LINES = {
    "ce": ("cosine", "raw"),
    "la-post-hoc": ("cosine", "logit-adjustment"),
    "ea": ("cosine", "ea"),
    "ce + ea-marginal": ("cosine", "ea-marginal"),
    "ce + ea-auto": ("cosine", "ea-auto"),
    "ce (linear) + raw": ("linear", "raw"),
    "ce (linear) + logit-adjustment": ("linear", "logit-adjustment"),
    "ce (linear) + ea": ("linear", "ea"),
    "ce (linear) + ea-marginal": ("linear", "ea-marginal"),
    "ce (linear) + ea-auto": ("linear", "ea-auto"),
}
"""Head and corrector of each line of the table, in its order."""
COUNTS = [124, 80, 51, 33, 21, 14, 9, 5, 3, 2]


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    part, said = LongTail(range(3)), []
    results = measure(part, tmp_path_factory.mktemp("demo"), said.append)
    return results, part.section(results), said


def test_rows_hold_every_head_corrector_and_seed_and_the_table_is_their_mean(demo):
    results, section, _ = demo
    rows = all_rows(results)
    assert len(rows) == 2 * 5 * 3
    (table,) = section.tables
    assert [line.method for line in table.lines] == list(LINES)
    groups = ["balanced", "many", "medium", "few"]
    assert [column.title for column in table.columns] == [*groups, "seeds"]
    for line in table.lines:
        same = [row for row in rows if (row.config.head, row.corrector) == LINES[line.method]]
        assert sorted(row.seed for row in same) == [0, 1, 2]
        *cells, seeds = line.cells
        assert seeds.mean == 3
        for cell, column in zip(cells, groups, strict=True):
            percents = [100 * row.accuracy(column) for row in same]
            assert str(cell) == f"{np.mean(percents):.1f} ± {np.std(percents, ddof=1):.1f}"
    assert {row.counts for row in rows} == {tuple(COUNTS)}


def test_aligning_helps_the_few_and_beats_the_raw_model_behind_both_heads(demo):
    rows = all_rows(demo[0])

    def mean(head, corrector, column):
        same = [row for row in rows if (row.config.head, row.corrector) == (head, corrector)]
        return np.mean([row.accuracy(column) for row in same])

    for head in ("cosine", "linear"):
        for corrector in ("logit-adjustment", "ea-marginal", "ea-auto"):
            assert mean(head, corrector, "balanced") > mean(head, "raw", "balanced") + 0.03
            assert mean(head, corrector, "few") > mean(head, "raw", "few") + 0.06
    assert mean("cosine", "ea", "few") > mean("cosine", "raw", "few") + 0.06


def test_it_says_what_was_measured(demo):
    results, section, said = demo
    assert "500 test images" in section.paragraphs[0]
    assert "3 seeds (0 to 2)" in section.paragraphs[0]
    assert "124, 80, 51, 33, 21, 14, 9, 5, 3, 2" in said[0]
    assert all_rows(results)[0].manifest[:12] in said[0]
    assert sum(line.startswith("linear head, seed") for line in said) == 3
    assert any(line.startswith("  warning, ce (linear) + ea, evidence ") for line in said)  # of the linear head
    warnings = [line.partition(": ")[2] for line in said if line.startswith("  warning")]
    assert len(warnings) == len(set(warnings))  # for any number of seeds
