"""Objectives of a decision: metrics, costs, user functions, constraints."""

from energyalign.core.objectives.constraints import Constraints
from energyalign.core.objectives.costs import Costs
from energyalign.core.objectives.functions import Aims, make_objective
from energyalign.core.objectives.metrics import METRICS, Objective, score_name, show_error, show_score

__all__ = [
    "METRICS",
    "Aims",
    "Constraints",
    "Costs",
    "Objective",
    "make_objective",
    "score_name",
    "show_error",
    "show_score",
]
