"""The rows of the paper's incremental tables: each a learner with a memory and a corrector."""

from __future__ import annotations

from typing import Any, NamedTuple

from energyalign.experiment.registry import found
from energyalign.incremental.config import IncrementalConfig
from energyalign.incremental.learners import LEARNERS, find_learner
from energyalign.incremental.memory_plan import MemoryPlan
from energyalign.incremental.presets import Preset


class Method(NamedTuple):
    """A named row.

    Attributes
    ----------
    learner, memory, corrector : str
        Names of `energyalign.incremental.learners.LEARNERS`, of `energyalign.incremental.memory_plan.SELECTIONS`, and
        of `energyalign.incremental.correctors.CORRECTORS`.
    head : str or None
        The head that belongs to the row; None for that of the cell, cosine as in the paper.
    """

    learner: str
    memory: str
    corrector: str
    description: str
    reference: str
    head: str | None = None


METHODS: dict[str, Method] = {
    "fine-tuning": Method(
        "fine-tune", "random", "raw", "trains on, with exemplars and nothing else against forgetting", "", "linear"
    ),
    "ft-th": Method(
        "fine-tune", "random", "prior", "fine-tuning, outputs divided by the prior", "Belouadah and Popescu 2020",
        "linear",
    ),
    "lwf": Method("lwf", "none", "raw", "distils what it knew, and keeps no exemplar", "Li and Hoiem 2017", "linear"),
    "icarl": Method("icarl", "herding", "nme", "nearest mean of the exemplars", "Rebuffi et al. 2017", "linear"),
    "eeil": Method("eeil", "herding", "raw", "a balanced second stage", "Castro et al. 2018", "linear"),
    "bic": Method("bic", "herding", "bic", "a scale and a shift of new classes, learned on held-out images",
                  "Wu et al. 2019", "linear"),
    "rps": Method("rps", "random", "raw", "random paths through a wide network", "Rajasegaran et al. 2019", "linear"),
    "il2m": Method("fine-tune", "random", "il2m", "scores set right by statistics of former steps",
                   "Belouadah and Popescu 2019", "linear"),
    "scail": Method("fine-tune", "random", "scail", "first weights of old classes, scaled to the new ones",
                    "Belouadah and Popescu 2020", "linear"),
    "wa": Method("wa", "random", "wa", "weights of new classes scaled to the length of old ones", "Zhao et al. 2020",
                 "linear"),
    "distill": Method("distill", "random", "raw", "rehearsal and distillation, nothing corrected", "Wu et al. 2019"),
    "ea": Method("distill", "random", "ea", "energy aligning as in the paper", "Zhao et al. 2021"),
    "ea-linear": Method("distill", "random", "ea", "the same with a linear head", "Zhao et al. 2021", "linear"),
    "joint": Method("joint", "all", "raw", "all images of all classes, the upper bound", ""),
}  # fmt: skip


def config_of(
    method: Method, preset: Preset, *, seed: int, memory: MemoryPlan | None = None, fed_back: str | None = None,
    **others: Any,
) -> IncrementalConfig:  # fmt: skip
    """The training of a row in a cell.

    Parameters
    ----------
    memory : MemoryPlan, optional
        Instead of that of the row and the cell.
    fed_back : str, optional
        The corrector to feed back instead of that of the row, if it feeds back.
    **others
        See `IncrementalConfig.from_preset`.
    """
    return IncrementalConfig.from_preset(
        preset.with_head(method.head), find_learner(method.learner), seed=seed,
        memory=memory or MemoryPlan.parse(method.memory, preset.memory_for(0, 1)),
        corrector=method.corrector, fed_back=fed_back, **others,
    )  # fmt: skip


def row_of(learner: str) -> Method:
    """The first row of a learner; energy aligning for that of the paper, and for one that is in no table."""
    ours = METHODS["ea"]
    if learner == ours.learner:
        return ours
    return next((row for row in METHODS.values() if row.learner == learner), ours._replace(learner=learner))


def find_method(name: str) -> Method:
    """By name."""
    return found(METHODS, name, "method")


def head_of(learner: str) -> str:
    """The head of a learner's rows: its own, or cosine as in the paper."""
    known = LEARNERS.get(learner)  # a learner of the user's own is in no registry
    return (known.head if known else None) or "cosine"
