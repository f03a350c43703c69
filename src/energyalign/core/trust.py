"""When a result should not be trusted: said in a sentence that names the classes and the remedy.

What only one estimator has reason to doubt is in its own `doubts`.
"""

from __future__ import annotations

import numpy as np

from energyalign.core.errors import some_of
from energyalign.core.estimators import Estimate, look_up_estimator
from energyalign.core.evidence import Evidence
from energyalign.core.selection.record import Selection

# In logits: a class that sharing moves further than this has a bias that its count does not explain. Seen on a network
# that had given up a class: its own shift was +12.6, its neighbour's 0, and their pool at 6.3 ruined both.
MAX_STRAIN = 3.0
_MAX_SLOPE_AGAINST = 0.5


def concerns(evidence: Evidence, estimate: Estimate, selection: Selection | None = None) -> list[str]:
    """List every reason to doubt `estimate` and how it was chosen, worst first; empty if there is none."""
    found = [
        *estimate.estimator.doubts(estimate, evidence),
        _against_counts(estimate, selection),
        _strained_sharing(evidence, estimate, selection),
        _unseen_classes(evidence, estimate),
        _not_logits(evidence, estimate),
        _blind_choice(selection),
    ]
    return [concern for concern in found if concern]


def _against_counts(estimate: Estimate, selection: Selection | None) -> str | None:
    """Balanced training leaves a slope of 0; a clearly negative one tells of counts in another order."""
    if selection is None or (estimate.clusters.name == "per-class" and not estimate.estimator.reads_counts):
        return None  # not compared, or the counts had no part in it
    slopes = [
        candidate.slope
        for candidate in selection.candidates
        if candidate.sharing == "per-class" and look_up_estimator(candidate.estimator).bounded
    ]
    against = [slope for slope in slopes if slope is not None and slope < -_MAX_SLOPE_AGAINST]
    if not against:
        return None
    return (
        f"the energies run against the training counts (slope {against[0]:.1f} on their logarithm; theory says 1): "
        "are the counts in the order of the classes in the logits?"
    )


def _strained_sharing(evidence: Evidence, estimate: Estimate, selection: Selection | None) -> str | None:
    strained = np.flatnonzero(estimate.strain > MAX_STRAIN)
    if len(strained) == 0 or selection is not None:  # what auto chose, it chose knowing the strain
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


def _not_logits(evidence: Evidence, estimate: Estimate) -> str | None:
    """What is wrong with the scores for all estimators, or else for this one."""
    if evidence.holds_probabilities:
        return "these scores are probabilities (every row sums to one): give logits, or take the logarithm first."
    return estimate.estimator.applies(evidence)


def _blind_choice(selection: Selection | None) -> str | None:
    if selection is None or not selection.doubtful:
        return None
    return (
        f"auto had little to go by: {selection.reason} Give labelled samples that the model was not trained on "
        "(evidence='held-out'), or choose the estimator yourself."
    )
