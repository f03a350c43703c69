"""Which rows stand for a method that was measured with several kinds of evidence."""

from __future__ import annotations

from collections.abc import Sequence

from energyalign.experiments.engine.row import Row
from energyalign.experiments.engine.stored import DEFAULT_EVIDENCE


def first_plan(rows: Sequence[Row]) -> tuple[list[Row], list[str]]:
    """The rows of the default plan, or of the first one; and the plans left out."""
    plans = list(dict.fromkeys(row.evidence for row in rows))
    taken = DEFAULT_EVIDENCE if DEFAULT_EVIDENCE in plans else plans[0]
    left_out = [str(plan or "none") for plan in plans if plan != taken]
    return [row for row in rows if row.evidence == taken], left_out
