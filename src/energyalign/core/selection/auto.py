"""`auto`: choose an estimator and a sharing, judged on samples that a candidate was not fitted on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from energyalign.core._engine.thinning import thin
from energyalign.core.arrays import Floats
from energyalign.core.errors import BadValueError, CannotGoOn, EnergyAlignError
from energyalign.core.estimators import ESTIMATORS, Estimate, Estimator, make_estimator
from energyalign.core.evidence import Evidence
from energyalign.core.selection.record import Candidate, Selection
from energyalign.core.selection.scoring import N_FOLDS, cross_fitted_scores, scores_every_class
from energyalign.core.sharing import Sharing, SharingChoice, jenks_to_try, make_sharing, name_of
from energyalign.core.trust import MAX_STRAIN

MAX_NUMBERS = 20_000_000  # logits that candidates are compared on; more would say the same
CLOSE = 2.0  # standard errors of a difference within which two scores count as equal
# Theory says that energies follow the log counts with slope 1. A slope far from it, on training samples that the
# model may have memorised, tells of that and not of a model without bias.
TRUSTED_SLOPES = (0.8, 1.25)
# Accuracy that the counts may cost on training samples. A model trained with plain cross-entropy loses next to nothing
# there (0.03 at the most on digits-LT with four heads, docs/results.md); one that was balanced in training loses more.
HARMFUL = 0.05
MEMORISED = 0.7  # class-averaged accuracy of the raw model from which its training samples may be memorised

Option = tuple[Estimator, Sharing]


def options_for(evidence: Evidence, estimator: str, clusters: SharingChoice, tau: float) -> list[Option]:
    """List what to compare for a choice of estimator and clusters, either of which may be ``auto``.

    In order of preference: measured energies before assumed ones, bounded before unbounded, shared before
    alone. The raw model comes last and is taken only if it is clearly better.
    """
    if estimator == "auto":
        made = sorted((make_estimator(name, tau=tau) for name in ESTIMATORS), key=_rank)
        estimators = [candidate for candidate in made if candidate.applies(evidence) is None]
    else:
        estimators = [make_estimator(estimator, tau=tau)]
    return [
        (candidate, sharing)
        for candidate in estimators
        for sharing in _sharings_for(candidate, clusters, evidence, brief=estimator == "auto")
    ]


def _rank(estimator: Estimator) -> tuple[bool, bool, bool]:
    """Sort what is preferred first; equals keep the order of the registry."""
    return not estimator.reads_evidence, _is_raw(estimator), not estimator.bounded


def _is_raw(estimator: Estimator) -> bool:
    """Whether it leaves the model as it is: it looks at nothing that could correct it."""
    return not (estimator.reads_evidence or estimator.reads_counts)


def _trusts_counts(estimator: Estimator) -> bool:
    """Whether it takes the training counts for the energies and measures nothing."""
    return estimator.reads_counts and not estimator.reads_evidence


def _sharings_for(estimator: Estimator, clusters: SharingChoice, evidence: Evidence, *, brief: bool) -> list[Sharing]:
    if isinstance(clusters, str) and clusters == "jenks":
        return jenks_to_try(evidence)
    if isinstance(clusters, str) and clusters == "auto":
        return estimator.sharings(evidence, brief=brief)
    return [make_sharing(clusters, evidence)]


def select(evidence: Evidence, options: list[Option], target: Floats) -> tuple[Estimate, Selection]:
    """Estimate every option on the whole evidence, score it, and choose.

    Held-out and out-of-fold evidence chooses by cross-fitted accuracy under the target prior; options
    that are no worse than the best by more than the noise of the comparison count as equal, and the first
    of them in the order of `options` is taken. On training data a model is right about nearly everything,
    which would vote for no correction: there the first option whose own diagnostics hold is taken, and the
    scores are recorded only. The same goes for evidence without labels, or with too few of a class. Among
    numbers of Jenks clusters alone the best score always decides, as in the paper.
    """
    sample = _thin(evidence)
    estimates: list[Estimate | None] = []
    candidates: list[Candidate] = []
    for estimator, sharing in options:
        try:
            result = estimator.estimate(sample, sharing)
        except (BadValueError, CannotGoOn):
            raise  # nothing that the option is to blame for
        except EnergyAlignError as error:
            estimates.append(None)
            candidates.append(Candidate(estimator.name, name_of(sharing), problem=str(error)))
            continue
        estimates.append(result)
        candidates.append(_measure(evidence, result, name_of(sharing)))
    estimators = [estimator for estimator, _ in options]
    if all(c.problem is not None for c, e in zip(candidates, estimators, strict=True) if not _is_raw(e)):
        # Only the raw model is left: to return it would be a silent fallback.
        raise EnergyAlignError(f"no estimator can use this evidence. The first said: {candidates[0].problem}")
    standing = [i for i, result in enumerate(estimates) if result is not None]
    for i, score in zip(standing, cross_fitted_scores(sample, [options[i] for i in standing], target), strict=True):
        candidates[i] = replace(candidates[i], score=score.accuracy, behind=score.behind, problem=score.problem)
    only_jenks = all(candidate.sharing.startswith("jenks") for candidate in candidates)
    unfair = _why_scores_are_unfair(sample, candidates, only_jenks)
    if unfair:
        choice = _choose_by_diagnostics(candidates, estimates, evidence, unfair)
    else:
        choice = _choose_by_score(candidates, close=0.0 if only_jenks else CLOSE)
    estimator, sharing = options[choice.chosen]
    final = estimates[choice.chosen] if sample is evidence else estimator.estimate(evidence, sharing)
    assert final is not None
    return final, choice


def _why_scores_are_unfair(evidence: Evidence, candidates: list[Candidate], only_jenks: bool) -> str | None:
    if evidence.labels is None:
        return "without labels nothing can be scored"
    if evidence.kind == "training" and not only_jenks:
        return "accuracy on training data flatters"
    if not scores_every_class(evidence) or all(c.score is None for c in candidates):
        return "some class has too few samples to be scored"
    return None


def _choose_by_score(candidates: list[Candidate], close: float) -> Selection:
    best = max((c.score, -i) for i, c in enumerate(candidates) if c.score is not None)
    near = [i for i, c in enumerate(candidates) if c.behind is not None and c.behind <= close]
    chosen = near[0]
    winner = candidates[chosen]
    reason = f"cross-fitted accuracy {winner.score:.4f}"
    if winner.score != best[0]:
        reason += f", within {close:g} standard errors of the best ({best[0]:.4f}) and preferred as the more robust"
    return Selection(tuple(candidates), chosen, reason + ".")


def _choose_by_diagnostics(
    candidates: list[Candidate], estimates: list[Estimate | None], evidence: Evidence, why: str
) -> Selection:
    """Take the first estimator that does not doubt its result, in its preferred sharing.

    Only that sharing: among many numbers of clusters one would look right by chance. A candidate stands if it has an
    estimate from the whole evidence; that a part of it was too little to be scored does not count here.
    """
    standing = {i: result for i, result in enumerate(estimates) if result is not None}
    raw = _first_score(candidates, [i for i, result in standing.items() if _is_raw(result.estimator)])
    by_counts = _first_score(candidates, [i for i, result in standing.items() if _trusts_counts(result.estimator)])
    # Samples that a model was trained on flatter it as it is, but not by as much as this: it was balanced in training.
    counts_harm = raw is not None and by_counts is not None and by_counts < raw - HARMFUL
    memorised = evidence.kind == "training" and (raw is None or raw >= MEMORISED) and not counts_harm
    if counts_harm:
        why += ", and the training counts would cost even that"
    # The raw model has no diagnostics that could fail: it is not a last resort here.
    alive = [
        i
        for i, result in standing.items()
        if not (_is_raw(result.estimator) or (counts_harm and _trusts_counts(result.estimator)))
    ]
    # Where the counts do not explain the energies, monotone sharing gives way to the next.
    alive = [i for i in alive if (candidates[i].strain or 0.0) <= MAX_STRAIN] or alive
    if len({candidates[i].estimator for i in alive}) == 1:
        return Selection(tuple(candidates), alive[0], f"{why}, so the preferred way of sharing was taken.")
    preferred = [i for i in alive if all(candidates[i].estimator != candidates[j].estimator for j in alive if j < i)]
    for i in preferred:
        if _is_doubtful(candidates[i], standing[i], evidence, memorised):
            continue
        if _trusts_counts(standing[i].estimator):
            # It never doubts itself. What was measured does not hold; whether the counts do, nobody can see here.
            reason = (
                f"{why}, and no measured energies hold; the training counts were taken, which is right for a model "
                "trained with plain cross-entropy and harmful for one that was balanced in training."
            )
            return Selection(tuple(candidates), i, reason, doubtful=True)
        reason = f"{why}, so the first estimator whose own diagnostics hold was taken."
        return Selection(tuple(candidates), i, reason)
    reason = f"{why}, and no estimator's diagnostics hold: treat the result with care."
    return Selection(tuple(candidates), alive[0], reason, doubtful=True)


def _first_score(candidates: list[Candidate], among: list[int]) -> float | None:
    return next((score for i in among if (score := candidates[i].score) is not None), None)


def _is_doubtful(candidate: Candidate, result: Estimate, evidence: Evidence, memorised: bool) -> bool:
    """Whether a candidate's own diagnostics speak against it, where it cannot be scored fairly.

    What measures nothing has none that could.
    """
    if not result.estimator.reads_evidence:
        return False
    if memorised and candidate.slope is not None and not TRUSTED_SLOPES[0] <= candidate.slope <= TRUSTED_SLOPES[1]:
        return True
    return bool(result.estimator.doubts(result, evidence))


def _measure(evidence: Evidence, result: Estimate, sharing: str) -> Candidate:
    errors = result.standard_errors[evidence.usable]
    return Candidate(
        result.estimator.name,
        sharing,
        largest_error=_finite(float(np.max(errors, initial=0.0))),
        smallest_effective_samples=result.estimator.smallest_effective_samples(evidence),
        slope=None if _is_raw(result.estimator) else _slope(evidence, result.shifts),
        strain=float(np.max(result.strain)) if sharing == "monotone" else None,
    )


def _slope(evidence: Evidence, shifts: Floats) -> float | None:
    """Least-squares slope of the estimated energies, -shift, on log counts."""
    if evidence.counts is None:
        return None
    log_counts = np.log(evidence.counts[evidence.usable])
    centred = log_counts - log_counts.mean()
    if not np.any(centred):
        return None
    return float(-(centred @ shifts[evidence.usable]) / (centred @ centred))


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _thin(evidence: Evidence) -> Evidence:
    """The evidence, or an even part of each class of it that is large enough to compare candidates on."""
    # A class is thinned only as far as all folds still find a sample of it.
    return thin(evidence, max(1, MAX_NUMBERS // evidence.n_classes), min_per_class=N_FOLDS)
