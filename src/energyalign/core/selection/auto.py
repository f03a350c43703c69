"""`auto`: choose estimator, sharing and strength by cross-fitted scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from energyalign.core._engine.thinning import thin
from energyalign.core.arrays import Floats
from energyalign.core.errors import BadValueError, CannotGoOn, EnergyAlignError, classes_of
from energyalign.core.estimators import Estimate, Estimator, make_estimator
from energyalign.core.evidence import Evidence
from energyalign.core.selection.decision import decide
from energyalign.core.selection.record import Candidate, Selection
from energyalign.core.selection.samples import Aim, collect
from energyalign.core.selection.scoring import (
    N_FOLDS,
    compare_on_itself,
    cross_fitted,
    scored_classes,
    scores_every_class,
)
from energyalign.core.sharing import Sharing, SharingChoice, jenks_to_try, make_sharing, name_of, share_per_class

MAX_NUMBERS = 20_000_000  # logits to compare candidates on; larger evidence is thinned
# A model that has memorised its training data loses a few points of accuracy there when it is aligned, and gains on new
# data. On stored logits of 15 data sets and three CIFAR networks the loss was at most 5 %; losses above 10 % did harm.
MAX_LOSS = 0.1  # accepted relative loss of balanced accuracy on evidence that cannot be cross-fitted
IN_ORDER = ("shrunk", "marginal", "lse", "prior")  # `auto` takes the first that applies


def select(
    evidence: Evidence, estimator: str, clusters: SharingChoice, tau: float, aim: Aim
) -> tuple[Estimate, Selection | None]:
    """Estimate the shifts; estimator and clusters may be ``auto``.

    `auto` takes the first estimator of `IN_ORDER` that applies to the evidence and does not ruin the model there.
    Among several sharings the best cross-fitted score wins; where scores would mislead, the first one that does not
    ruin the model. With `auto`, and for any aim but balanced accuracy, `decide` then adjusts the shifts, if there are
    labelled samples that the model was not trained on.
    """
    unseen, target = evidence.kind != "training", aim.target
    fair = unseen and scores_every_class(evidence)
    if estimator == "auto":
        passed_over, estimate, selection = _first_that_applies(evidence, clusters, target, fair=fair)
    else:
        passed_over = []
        estimate, selection = _with_sharing(evidence, make_estimator(estimator, tau=tau), clusters, target, fair=fair)
        if aim.is_default:
            return estimate, selection
    if fair or (unseen and not aim.is_default and _can_be_scored(evidence, aim)):
        estimate, selection = _aim_at(
            evidence, estimate, aim, np.log(target * len(target)) if aim.balanced else 0 * target
        )
    else:
        candidates = selection.candidates if selection is not None else (_candidate_of(evidence, estimate),)
        chosen = selection.chosen if selection is not None else 0
        estimate, reason = _aim_blindly(evidence, estimate, aim), _why_not_scored(evidence, estimate)
        selection = Selection(candidates, chosen, reason)
    candidates = (*passed_over, *selection.candidates)
    return estimate, replace(selection, candidates=candidates, chosen=len(passed_over) + selection.chosen)


def _first_that_applies(
    evidence: Evidence, clusters: SharingChoice, target: Floats, *, fair: bool
) -> tuple[list[Candidate], Estimate, Selection | None]:
    """Return the rejected estimators and the estimate of the first one that applies; raw if all ruin the model."""
    if not (isinstance(clusters, str) and clusters in ("auto", "jenks")):
        clusters = make_sharing(clusters, evidence)  # bad clusters are an error for every estimator
    passed_over: list[Candidate] = []
    ruined = False
    for name in IN_ORDER:
        estimator = make_estimator(name)
        try:
            problem = estimator.applies(evidence)
            if problem is None:
                estimate, selection = _with_sharing(evidence, estimator, clusters, target, fair=fair)
                problem = None if fair else _ruin(evidence, estimate.shifts)
                if problem is None:
                    return passed_over, estimate, selection
                ruined = True
        except (BadValueError, CannotGoOn):
            raise  # the next estimator would fail too
        except EnergyAlignError as error:
            problem = str(error)
        passed_over.append(Candidate(name, "", problem=problem))
    if ruined:
        return passed_over, make_estimator("none").estimate(evidence, share_per_class(evidence)), None
    first, *others = dict.fromkeys(candidate.problem or "" for candidate in passed_over)
    raise EnergyAlignError(f"no estimator can use this evidence. The first said: {first}" if others else first)


def _can_be_scored(evidence: Evidence, aim: Aim) -> bool:
    """Return whether at least two classes, and all constrained ones, have scored samples."""
    scored = scored_classes(evidence)
    return int(scored.sum()) >= 2 and bool(np.all(scored[aim.constraints.classes]))


def _why_not_scored(evidence: Evidence, estimate: Estimate) -> str:
    if evidence.labels is None:
        why = "there are no labels to score"
    elif evidence.kind == "training":
        why = "accuracy on training data is too optimistic"
    else:
        why = "some class has too few samples to be scored"
    return f"{why}; {estimate.estimator.name} is the first estimator that applies."


def _with_sharing(
    evidence: Evidence, estimator: Estimator, clusters: SharingChoice, target: Floats, *, fair: bool
) -> tuple[Estimate, Selection | None]:
    """Estimate with the requested sharing, or with the best of several."""
    sharings = _sharings_for(estimator, clusters, evidence)
    if len(sharings) == 1:
        return estimator.estimate(evidence, sharings[0]), None
    # Numbers of Jenks clusters are compared on training evidence too, as in the paper.
    only_jenks = all(name_of(sharing).startswith("jenks") for sharing in sharings)
    if not (fair or (only_jenks and scores_every_class(evidence))):
        return _first_that_is_safe(evidence, estimator, sharings)
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


def _first_that_is_safe(
    evidence: Evidence, estimator: Estimator, sharings: Sequence[Sharing]
) -> tuple[Estimate, Selection]:
    """Estimate with the first sharing that does not ruin the model; if all do, with the first one."""
    estimates: list[Estimate] = []
    candidates: list[Candidate] = []
    for sharing in sharings:
        estimates.append(estimator.estimate(evidence, sharing))
        problem = _ruin(evidence, estimates[-1].shifts)
        candidates.append(replace(_candidate_of(evidence, estimates[-1]), problem=problem))
        if problem is None:
            break
    chosen = 0 if problem else len(candidates) - 1
    reason = f"{name_of(sharings[chosen])} is the first sharing that applies: the evidence cannot be scored."
    return estimates[chosen], Selection(tuple(candidates), chosen, reason)


def _ruin(evidence: Evidence, shifts: Floats) -> str | None:
    """Return why these shifts ruin the model on its own evidence, or None if they do not."""
    if evidence.labels is None or evidence.unseen.any():  # gains on unseen classes would not show
        return None
    raw, aligned, error = compare_on_itself(_thin(evidence), shifts)
    if raw - aligned <= max(MAX_LOSS * raw, 2 * error):
        return None
    return f"its balanced accuracy on this very evidence would fall from {raw:.1%} to {aligned:.1%}."


def _sharings_for(estimator: Estimator, clusters: SharingChoice, evidence: Evidence) -> list[Sharing]:
    if isinstance(clusters, str) and clusters == "jenks":
        return jenks_to_try(evidence)
    if isinstance(clusters, str) and clusters == "auto":
        return estimator.sharings(evidence)
    return [make_sharing(clusters, evidence)]


def _try_each(
    evidence: Evidence, estimator: Estimator, sharings: Sequence[Sharing]
) -> tuple[list[Candidate], list[int]]:
    """Return a candidate for each sharing, and the indices of candidates with an estimate."""
    candidates, standing = [], []
    for i, sharing in enumerate(sharings):
        candidate = Candidate(estimator.name, name_of(sharing))
        try:
            result = estimator.estimate(evidence, sharing)
        except (BadValueError, CannotGoOn):
            raise  # not the sharing's fault
        except EnergyAlignError as error:
            candidates.append(replace(candidate, problem=str(error)))
            continue
        candidates.append(replace(candidate, largest_error=_largest_error(evidence, result)))
        standing.append(i)
    return candidates, standing


def _shifts_of(evidence: Evidence, estimator: Estimator, sharings: Sequence[Sharing]) -> Floats:
    """Return the shifts of each sharing; zeros if the evidence is too small for it."""
    shifts = np.zeros((len(sharings), evidence.n_classes))
    for i, sharing in enumerate(sharings):
        try:
            shifts[i] = estimator.estimate(evidence, sharing).shifts
        except (BadValueError, CannotGoOn):
            raise
        except EnergyAlignError:
            continue
    return shifts


def _aim_at(evidence: Evidence, estimate: Estimate, aim: Aim, added: Floats) -> tuple[Estimate, Selection]:
    """Adjust the estimate to the aim by cross-fitted scores."""
    sharing: Sharing = "monotone" if estimate.clusters.name == "monotone" else estimate.clusters
    estimator = estimate.estimator
    temperature = estimator.temperature(evidence, estimate.clusters)
    leave_out = partial(estimator.leave_out, evidence, sharing)
    found = decide(collect(evidence, leave_out, aim, added), estimate.shifts, temperature)
    candidate = Candidate(estimator.name, name_of(sharing), largest_error=_largest_error(evidence, estimate))
    candidates = (
        Candidate("none", "per-class", 0.0, *found.raw),
        replace(candidate, score=found.aligned.value, score_error=found.aligned.error),
        replace(
            candidate,
            strength=found.strength,
            score=found.chosen.value,
            score_error=found.chosen.error,
            largest_error=None if candidate.largest_error is None else found.strength * candidate.largest_error,
        ),
    )
    sign = -1.0 if aim.name == "costs" else 1.0  # the score of costs is a negative mean cost
    raw, aligned, chosen, change = (
        sign * score.value + 0.0 for score in (found.raw, found.aligned, found.chosen, found.gain)
    )
    reason = (
        f"cross-fitted {aim.score_name}: raw {raw:.4f}, aligned {aligned:.4f}, chosen {chosen:.4f} "
        f"({change:+.4f} +- {found.gain.error:.4f}) {found.described}"
    )
    selection = Selection(candidates, 0 if found.kept_raw else 2, reason, *found.gain, aim.score_name)
    if found.kept_raw:
        return make_estimator("none").estimate(evidence, sharing).scaled(0.0), selection
    shifts = np.where(
        evidence.masked, 0.0, found.shifts - found.shifts[estimate.clusters.indices == estimate.clusters.anchor][0]
    )
    return replace(estimate.scaled(found.strength), shifts=shifts), selection


def _aim_blindly(evidence: Evidence, estimate: Estimate, aim: Aim) -> Estimate:
    """Adjust the estimate without scores: full strength for balanced accuracy, 0 for accuracy, else one half."""
    if aim.constraints or aim.name == "costs":
        lacking = np.flatnonzero(~scored_classes(evidence) & ~evidence.masked).tolist()
        raise EnergyAlignError(
            "costs and constraints need labelled samples that the model was not trained on (held-out or out-of-fold "
            "evidence), at least two of a class"
            + (f": give more of {classes_of(evidence.names_of(lacking))}." if evidence.kind != "training" else ".")
        )
    return estimate.scaled({"balanced_accuracy": 1.0, "accuracy": 0.0}.get(aim.name, 0.5))


def _candidate_of(evidence: Evidence, result: Estimate) -> Candidate:
    return Candidate(result.estimator.name, name_of(result.clusters), largest_error=_largest_error(evidence, result))


def _largest_error(evidence: Evidence, result: Estimate) -> float | None:
    value = float(np.max(result.standard_errors[evidence.usable], initial=0.0))
    return value if np.isfinite(value) else None


def _thin(evidence: Evidence) -> Evidence:
    """Thin evidence of more than `MAX_NUMBERS` logits, keeping a sample of each class for every fold."""
    return thin(evidence, max(1, MAX_NUMBERS // evidence.n_classes), min_per_class=N_FOLDS)
