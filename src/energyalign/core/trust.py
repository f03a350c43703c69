"""When an estimate should not be trusted: said in a sentence that names the classes and the remedy."""

from __future__ import annotations

import numpy as np

from energyalign.core.errors import some_of
from energyalign.core.estimate import Estimate
from energyalign.core.evidence import Evidence
from energyalign.core.selection_record import Selection

# Below this, one or two samples decide a class. On CIFAR-100-LT the estimator still helped at 6 and ruined the
# model at 1 (see the project's measurements).
FEWEST_EFFECTIVE_SAMPLES = 5.0
# In logits: beyond this a shift is as wrong as a factor of e in the prior.
LARGEST_STANDARD_ERROR = 1.0
# In logits: a class that sharing moves further than this has a bias that its count does not explain. Seen on a network
# that had given up a class: its own shift was +12.6, its neighbour's 0, and their pool at 6.3 ruined both.
LARGEST_STRAIN = 3.0
STEEPEST_AGAINST = 0.5


def concerns(evidence: Evidence, estimate: Estimate, selection: Selection | None = None) -> list[str]:
    """Every reason to doubt `estimate` and how it was chosen, worst first; empty if there is none."""
    found = [_thin_energies(evidence, estimate), _loose_shifts(evidence, estimate)]
    found += [_against_counts(estimate, selection), _strained_sharing(evidence, estimate, selection)]
    found += [_unseen_classes(evidence, estimate)]
    found += [_not_logits(evidence, estimate), _blind_choice(selection)]
    return [concern for concern in found if concern]


def smallest_effective_samples(evidence: Evidence) -> float:
    """The effective sample size of the worst class whose energy can be estimated."""
    return float(np.min(evidence.free_energy.effective_samples[evidence.usable], initial=np.inf))


def _thin_energies(evidence: Evidence, estimate: Estimate) -> str | None:
    if estimate.estimator != "lse":
        return None
    effective = evidence.free_energy.effective_samples
    thin = np.flatnonzero((effective < FEWEST_EFFECTIVE_SAMPLES) & evidence.usable)
    if len(thin) == 0:
        return None
    order = thin[np.argsort(effective[thin])]
    return (
        f"the energy of {len(order)} of {evidence.n_classes} classes rests on fewer than "
        f"{FEWEST_EFFECTIVE_SAMPLES:g} effective samples ({some_of(evidence.names_of(order.tolist()))}; the smallest "
        f"is {effective[order[0]]:.1f} of {evidence.free_energy.n_samples:,.0f}): a few samples with large logits "
        "decide the shift. Use estimator='marginal' or 'auto', or give more evidence."
    )


def _loose_shifts(evidence: Evidence, estimate: Estimate) -> str | None:
    if estimate.estimator != "marginal":
        return None
    loose = np.flatnonzero((estimate.standard_errors > LARGEST_STANDARD_ERROR) & evidence.usable)
    if len(loose) == 0:
        return None
    order = loose[np.argsort(-estimate.standard_errors[loose])]
    return (
        f"the shift of {len(order)} of {evidence.n_classes} classes is uncertain by more than "
        f"{LARGEST_STANDARD_ERROR:g} ({some_of(evidence.names_of(order.tolist()))}): these samples hardly "
        "show where the bias lies, because they are few or the model is certain of them. Give more evidence, or "
        "evidence it was not trained on, share shifts with clusters='monotone', or use estimator='prior'."
    )


def _against_counts(estimate: Estimate, selection: Selection | None) -> str | None:
    """Balanced training leaves a slope of 0; a clearly negative one tells of counts in another order."""
    if selection is None or (estimate.clusters.name == "per-class" and estimate.estimator != "prior"):
        return None  # not compared, or the counts had no part in it
    slopes = [c.slope for c in selection.candidates if (c.estimator, c.sharing) == ("marginal", "per-class")]
    against = [slope for slope in slopes if slope is not None and slope < -STEEPEST_AGAINST]
    if not against:
        return None
    return (
        f"the energies run against the training counts (slope {against[0]:.1f} on their logarithm; theory says 1): "
        "are the counts in the order of the classes in the logits?"
    )


def _strained_sharing(evidence: Evidence, estimate: Estimate, selection: Selection | None) -> str | None:
    strained = np.flatnonzero(estimate.strain > LARGEST_STRAIN)
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
    if len(unseen) == 0 or estimate.estimator in ("prior", "none"):
        return None
    return (
        f"class {some_of(evidence.names_of(unseen.tolist()))} has no labelled evidence and takes the shift that "
        f"its training count suggests (sharing: {estimate.clusters.name}). Add samples to measure its own."
    )


def _blind_choice(selection: Selection | None) -> str | None:
    if selection is None or not selection.doubtful:
        return None
    return (
        f"auto had little to go by: {selection.reason} Give labelled samples that the model was not trained on "
        "(evidence='held-out'), or choose the estimator yourself."
    )


def _not_logits(evidence: Evidence, estimate: Estimate) -> str | None:
    if evidence.holds_probabilities:
        return "these scores are probabilities (every row sums to one): give logits, or take the logarithm first."
    if estimate.estimator != "lse" or not evidence.holds_log_probabilities:
        return None
    return (
        "these scores are log-probabilities: softmax has removed a number per sample that estimator 'lse' needs. "
        "Give the logits before softmax, or use estimator='marginal', which does not need it."
    )
