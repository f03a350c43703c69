"""When a result should not be trusted: said in a sentence that names the classes and the remedy.

What only one estimator has reason to doubt is in its own `doubts`.
"""

from __future__ import annotations

import numpy as np

from energyalign.core.column_order import doubt_column_order
from energyalign.core.errors import some_of
from energyalign.core.estimators import Estimate
from energyalign.core.evidence import Evidence
from energyalign.core.probabilities import TAKEN_AS_LOGITS
from energyalign.core.selection.record import Selection

# In logits: a class that sharing moves further than this has a bias that its count does not explain. Seen on a network
# that had given up a class: its own shift was +12.6, its neighbour's 0, and their pool at 6.3 ruined both.
MAX_STRAIN = 3.0


def concerns(evidence: Evidence, estimate: Estimate, selection: Selection | None = None) -> list[str]:
    """List every reason to doubt `estimate` and how it was chosen, worst first; empty if there is none."""
    found = [
        doubt_column_order(evidence),
        *estimate.estimator.doubts(estimate, evidence),
        _strained_sharing(evidence, estimate),
        _unseen_classes(evidence, estimate),
        TAKEN_AS_LOGITS if evidence.holds_probabilities else None,
        estimate.estimator.applies(evidence),
        _no_gain(selection),
    ]
    return [concern for concern in found if concern]


def _strained_sharing(evidence: Evidence, estimate: Estimate) -> str | None:
    strained = np.flatnonzero(estimate.strain > MAX_STRAIN)
    if len(strained) == 0:
        return None
    order = strained[np.argsort(-estimate.strain[strained])]
    return (
        f"monotone sharing moves the shift of class {some_of(evidence.names_of(order.tolist()))} by up to "
        f"{estimate.strain[order[0]]:.1f}, far more than chance explains: the bias of this model does not follow its "
        "training counts there. Use clusters='per-class'."
    )


def _unseen_classes(evidence: Evidence, estimate: Estimate) -> str | None:
    unseen = np.flatnonzero(evidence.unseen)
    if len(unseen) == 0 or not estimate.estimator.reads_evidence:
        return None
    return (
        f"class {some_of(evidence.names_of(unseen.tolist()))} has no labelled evidence and takes the shift that "
        f"its training count suggests (sharing: {estimate.clusters.name}). Add samples to measure its own."
    )


def _no_gain(selection: Selection | None) -> str | None:
    if selection is None or selection.gain is None or selection.gain_error is None:
        return None
    if selection.gain > selection.gain_error or selection.candidates[selection.chosen].strength == 0:
        return None
    return (
        f"the evidence does not show that aligning helps: {selection.reason} Give more labelled samples, or keep the "
        "raw model."
    )
