"""Concerns: reasons not to trust a result, with the classes and the remedy.

Concerns about a single estimator are in its method `doubts`.
"""

from __future__ import annotations

from itertools import takewhile

import numpy as np

from energyalign.core.column_order import doubt_column_order
from energyalign.core.errors import classes_of
from energyalign.core.estimators import Estimate
from energyalign.core.evidence import Evidence
from energyalign.core.objectives import score_name
from energyalign.core.probabilities import TAKEN_AS_LOGITS
from energyalign.core.selection.record import Selection
from energyalign.core.selection.samples import Aim
from energyalign.core.selection.scoring import scored_classes

# In logits: if sharing moves a class further than this, its count does not explain its bias. Observed on a network that
# had given up a class: its own shift was +12.6, its neighbour's 0, and the pooled shift of 6.3 ruined both.
MAX_STRAIN = 3.0


def concerns(
    evidence: Evidence,
    estimate: Estimate,
    selection: Selection | None = None,
    aim: Aim | None = None,
) -> list[str]:
    """Return all reasons not to trust `estimate` and its selection, worst first."""
    found = [
        doubt_column_order(evidence),
        *estimate.estimator.doubts(estimate, evidence),
        _strained_sharing(evidence, estimate),
        _unseen_classes(evidence, estimate),
        TAKEN_AS_LOGITS if evidence.holds_probabilities else None,
        estimate.estimator.applies(evidence),
        _not_a_logit(evidence),
        *_passed_over(evidence, selection),
        _not_scored(evidence, selection),
        _chosen_blindly(evidence, selection, aim),
        _no_gain(selection, aim),
    ]
    return [concern for concern in found if concern]


def _strained_sharing(evidence: Evidence, estimate: Estimate) -> str | None:
    strained = np.flatnonzero(estimate.strain > MAX_STRAIN)
    if len(strained) == 0:
        return None
    order = strained[np.argsort(-estimate.strain[strained])]
    return (
        f"monotone sharing moves the shift of {classes_of(evidence.names_of(order.tolist()))} by up to "
        f"{estimate.strain[order[0]]:.1f}, far more than chance explains: for these classes, the model's bias does "
        "not follow the training counts. Give every class its own shift (clusters: per-class)."
    )


def _unseen_classes(evidence: Evidence, estimate: Estimate) -> str | None:
    unseen = np.flatnonzero(evidence.unseen)
    if len(unseen) == 0 or not estimate.estimator.reads_evidence:
        return None
    return (
        f"there is no labelled evidence for {classes_of(evidence.names_of(unseen.tolist()))}: the shift is what the "
        f"training count suggests (sharing: {estimate.clusters.name}). Add samples to measure it."
    )


def _not_a_logit(evidence: Evidence) -> str | None:
    if not evidence.holds_one_probability:
        return None
    name = f" for {evidence.names_of([1])[0]!r}" if evidence.class_names is not None else ""
    return f"all scores{name} are between 0 and 1, like sigmoid outputs: give the logits, or np.log(p / (1 - p))."


def _passed_over(evidence: Evidence, selection: Selection | None) -> list[str]:
    """Return why preferred candidates were rejected; nothing for evidence without logits, where that is expected."""
    if selection is None or evidence.accumulated is not None:
        return []
    taken = selection.candidates[selection.chosen]
    found: dict[str | None, str] = {}  # the reason for each problem, which several candidates may share
    for candidate in takewhile(lambda candidate: candidate.problem, selection.candidates):
        if candidate is taken:
            reason = f"{candidate.problem} Keep the raw model with strength 0, or give held-out samples."
        elif candidate.estimator == taken.estimator:
            reason = f"sharing {taken.sharing!r} is used instead of {candidate.sharing!r}: {candidate.problem}"
        else:
            reason = f"auto takes {taken.estimator!r} instead of {candidate.estimator!r}: {candidate.problem}"
        found.setdefault(candidate.problem, reason)
    return list(found.values())


def _not_scored(evidence: Evidence, selection: Selection | None) -> str | None:
    if selection is None or evidence.labels is None or evidence.kind == "training":
        return None
    if selection.candidates[selection.chosen].score is not None or evidence.unseen.any():
        return None
    single = np.flatnonzero((evidence.label_counts == 1) & ~evidence.masked)
    which = classes_of(evidence.names_of(single.tolist())) if len(single) else "every class"
    return (
        "the evidence cannot show whether aligning helps: a class is scored only if its samples can be split. Give at "
        f"least two samples of {which}, from two groups if there are groups."
    )


def _chosen_blindly(evidence: Evidence, selection: Selection | None, aim: Aim | None) -> str | None:
    """Return a concern if the objective could not be measured on all classes."""
    if aim is None or aim.name == "balanced_accuracy":
        return None
    lacking = np.flatnonzero(~scored_classes(evidence) & ~evidence.masked).tolist()
    classes = classes_of(evidence.names_of(lacking))
    if selection is not None and selection.gain is not None:
        return (
            f"{score_name(aim.name)} is measured without {classes}: give at least two samples of each."
            if lacking
            else None
        )
    if aim.name == "accuracy":
        return None
    if evidence.kind != "training" and evidence.labels is not None:
        remedy = f"Give at least two samples of {classes}."
    else:
        remedy = "Give labelled samples that the model was not trained on (held-out or out-of-fold evidence)."
    return (
        f"{aim.name} cannot be measured on this evidence: the shifts are halfway between the raw and the aligned "
        f"model. {remedy}"
    )


def _no_gain(selection: Selection | None, aim: Aim | None) -> str | None:
    if selection is None or selection.gain is None or selection.gain_error is None:
        return None
    if aim is not None and (aim.constraints or aim.name == "accuracy"):  # these may cost accuracy
        return None
    if selection.gain > selection.gain_error or selection.candidates[selection.chosen].strength == 0:
        return None
    return (
        f"the evidence does not show that aligning helps: {selection.reason} The shifts are "
        "applied. Give more labelled samples, or keep the raw model with strength 0."
    )
