"""`auto`: choose a sharing and a strength by scores on samples that the shifts were not fitted on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from energyalign.core._engine.thinning import thin
from energyalign.core.arrays import Floats
from energyalign.core.errors import BadValueError, CannotGoOn, EnergyAlignError
from energyalign.core.estimators import Estimate, Estimator, make_estimator
from energyalign.core.evidence import Evidence
from energyalign.core.selection.record import Candidate, Selection
from energyalign.core.selection.scoring import N_FOLDS, cross_fitted, scores_every_class
from energyalign.core.sharing import Sharing, SharingChoice, jenks_to_try, make_sharing, name_of

MAX_NUMBERS = 20_000_000  # logits that candidates are compared on; more would say the same
IN_ORDER = ("shrunk", "marginal", "lse", "prior")  # what `auto` takes: the first that applies
STRENGTHS = np.linspace(0.0, 1.5, 16)


def select(
    evidence: Evidence, estimator: str, clusters: SharingChoice, tau: float, target: Floats
) -> tuple[Estimate, Selection | None]:
    """Estimate the shifts; either choice may be ``auto``.

    `auto` takes the first of `IN_ORDER` that applies to the evidence. With labels of samples that the model was not
    trained on it then scales the shifts as `_with_strength` says. Between sharings of one estimator the best
    cross-fitted score decides, or their order where scores would mislead.
    """
    fair = evidence.kind != "training" and scores_every_class(evidence)
    if estimator != "auto":
        return _with_sharing(evidence, make_estimator(estimator, tau=tau), clusters, target, fair=fair)
    passed_over: list[Candidate] = []
    for name in IN_ORDER:
        candidate = make_estimator(name)
        try:
            problem = candidate.applies(evidence)
            if problem is None:
                estimate, selection = _with_sharing(evidence, candidate, clusters, target, fair=fair)
                break
        except (BadValueError, CannotGoOn):
            raise  # nothing that the estimator is to blame for
        except EnergyAlignError as error:
            problem = str(error)
        passed_over.append(Candidate(name, "", problem=problem))
    else:
        raise EnergyAlignError(f"no estimator can use this evidence. The first said: {passed_over[0].problem}")
    if fair:
        estimate, selection = _with_strength(evidence, estimate, target)
    elif selection is None:
        selection = Selection((_candidate_of(evidence, estimate),), 0, "")
    reason = selection.reason if fair else _why_not_scored(evidence, estimate)
    return estimate, replace(
        selection,
        candidates=(*passed_over, *selection.candidates),
        chosen=len(passed_over) + selection.chosen,
        reason=reason,
    )


def _why_not_scored(evidence: Evidence, estimate: Estimate) -> str:
    if evidence.labels is None:
        why = "without labels nothing can be scored"
    elif evidence.kind == "training":
        why = "accuracy on training data flatters"
    else:
        why = "some class has too few samples to be scored"
    return f"{why}; {estimate.estimator.name} is the first estimator that applies."


def _with_sharing(
    evidence: Evidence, estimator: Estimator, clusters: SharingChoice, target: Floats, *, fair: bool
) -> tuple[Estimate, Selection | None]:
    """The estimate with the sharing that was asked for, or with the best of several."""
    sharings = _sharings_for(estimator, clusters, evidence)
    if len(sharings) == 1:
        return estimator.estimate(evidence, sharings[0]), None
    # Numbers of Jenks clusters are compared on training evidence too, as in the paper.
    only_jenks = all(name_of(sharing).startswith("jenks") for sharing in sharings)
    if not (fair or (only_jenks and scores_every_class(evidence))):
        estimate = estimator.estimate(evidence, sharings[0])
        candidate = _candidate_of(evidence, estimate)
        return estimate, Selection((candidate,), 0, "the preferred way of sharing: the evidence cannot be scored.")
    sample = _thin(evidence)
    candidates, standing = _try_each(sample, estimator, sharings)
    if not standing:
        raise EnergyAlignError(f"estimator {estimator.name!r} cannot use this evidence: {candidates[0].problem}")
    fitted = cross_fitted(sample, lambda part: _shifts_of(part, estimator, [sharings[i] for i in standing]), target)
    scores = [fitted.score(right) for right in fitted.right_by_option()]
    for i, score in zip(standing, scores, strict=True):
        candidates[i] = replace(candidates[i], score=score)
    chosen = standing[int(np.argmax(scores))]
    reason = f"best cross-fitted score, {max(scores):.4f}."
    return estimator.estimate(evidence, sharings[chosen]), Selection(tuple(candidates), chosen, reason)


def _sharings_for(estimator: Estimator, clusters: SharingChoice, evidence: Evidence) -> list[Sharing]:
    if isinstance(clusters, str) and clusters == "jenks":
        return jenks_to_try(evidence)
    if isinstance(clusters, str) and clusters == "auto":
        return estimator.sharings(evidence)
    return [make_sharing(clusters, evidence)]


def _try_each(
    evidence: Evidence, estimator: Estimator, sharings: Sequence[Sharing]
) -> tuple[list[Candidate], list[int]]:
    """A candidate for each sharing, and which of them have an estimate."""
    candidates, standing = [], []
    for i, sharing in enumerate(sharings):
        candidate = Candidate(estimator.name, name_of(sharing))
        try:
            result = estimator.estimate(evidence, sharing)
        except (BadValueError, CannotGoOn):
            raise  # nothing that the sharing is to blame for
        except EnergyAlignError as error:
            candidates.append(replace(candidate, problem=str(error)))
            continue
        candidates.append(replace(candidate, largest_error=_largest_error(evidence, result)))
        standing.append(i)
    return candidates, standing


def _shifts_of(evidence: Evidence, estimator: Estimator, sharings: Sequence[Sharing]) -> Floats:
    """The shifts of each sharing; zeros where a part of the evidence is too little for it."""
    shifts = np.zeros((len(sharings), evidence.n_classes))
    for i, sharing in enumerate(sharings):
        try:
            shifts[i] = estimator.estimate(evidence, sharing).shifts
        except (BadValueError, CannotGoOn):
            raise
        except EnergyAlignError:
            continue
    return shifts


def _with_strength(evidence: Evidence, estimate: Estimate, target: Floats) -> tuple[Estimate, Selection]:
    """Scale the shifts halfway from where the likelihood has them, 1, to where the score is best.

    The likelihood is efficient if the model is calibrated up to its biases and a temperature; the score assumes nothing
    and is noisy. Nothing tells which is nearer to the truth, so both count the same. The best strength is averaged over
    the posterior of the scores: where the evidence cannot tell, it comes to rest between raw and aligned. What still
    scores below the raw model by more than the standard error is not taken.
    """
    sample = _thin(evidence)
    sharing: Sharing = "monotone" if estimate.clusters.name == "monotone" else estimate.clusters
    fitted = cross_fitted(sample, lambda part: _shifts_of(part, estimate.estimator, [sharing]), target)
    strength = 0.5 * (1.0 + fitted.expected_best(fitted.right(STRENGTHS), STRENGTHS))
    raw, full, scaled = fitted.right(np.array([0.0, 1.0, strength]))
    gain, error = fitted.gain(scaled, raw)
    name, shared = estimate.estimator.name, name_of(sharing)
    largest = _largest_error(evidence, estimate)
    candidates = (
        Candidate("none", "per-class", 0.0, fitted.score(raw)),
        Candidate(name, shared, 1.0, fitted.score(full), largest),
        Candidate(name, shared, strength, fitted.score(scaled), None if largest is None else strength * largest),
    )
    if gain < -error:
        reason = f"aligning costs {-gain:.4f} +- {error:.4f} of cross-fitted accuracy: the raw model was kept."
        return make_estimator("none").estimate(evidence, sharing).scaled(0.0), Selection(
            candidates, 0, reason, 0.0, 0.0
        )
    before, after = fitted.score(raw), fitted.score(scaled)
    reason = (
        f"cross-fitted accuracy {before:.4f} -> {after:.4f} ({gain:+.4f} +- {error:.4f}) at strength {strength:.2f}."
    )
    return estimate.scaled(strength), Selection(candidates, 2, reason, gain, error)


def _candidate_of(evidence: Evidence, result: Estimate) -> Candidate:
    return Candidate(result.estimator.name, name_of(result.clusters), largest_error=_largest_error(evidence, result))


def _largest_error(evidence: Evidence, result: Estimate) -> float | None:
    value = float(np.max(result.standard_errors[evidence.usable], initial=0.0))
    return value if np.isfinite(value) else None


def _thin(evidence: Evidence) -> Evidence:
    """The evidence, or an even part of each class of it that is large enough to compare candidates on."""
    # A class is thinned only as far as all folds still find a sample of it.
    return thin(evidence, max(1, MAX_NUMBERS // evidence.n_classes), min_per_class=N_FOLDS)
