"""Which rows stand for a method that was measured with several kinds of evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from energyalign.experiment.rows import Row
from energyalign.report.runs import DEFAULT_EVIDENCE


def first_plan(rows: Sequence[Row]) -> tuple[list[Row], list[str]]:
    """The rows of the plan that everybody gets who asks for none, or of the first one; and the plans left out."""
    plans: list[Mapping[str, Any] | None] = []
    for row in rows:
        if row["evidence"] not in plans:
            plans.append(row["evidence"])
    taken = DEFAULT_EVIDENCE if DEFAULT_EVIDENCE in plans else plans[0]
    return [row for row in rows if row["evidence"] == taken], [told(plan) for plan in plans if plan != taken]


def told(plan: Mapping[str, Any] | None) -> str:
    """``one x 50``: the augmentation and the images of each class."""
    return "none" if plan is None else f"{plan['policy']} x {plan['per_class']}"
