"""What classifiers say about samples that they have not seen: out of bag, held out, or fold by fold."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold, check_cv
from sklearn.utils.parallel import Parallel, delayed

from energyalign.core.arrays import Bools, Floats, Ints
from energyalign.core.errors import EnergyAlignError
from energyalign.core.probabilities import log_probabilities
from energyalign.sklearn.training import Training

MIN_TO_HALVE, MIN_TO_HOLD_OUT = 100, 300  # samples of the rarest class
MIN_BAGS = 300  # a sample is out of a third of them; fewer make probabilities that are coarser than the forest's


class Unseen(NamedTuple):
    """A classifier fitted on all samples, and scores of some of them by classifiers that have not seen these.

    Attributes
    ----------
    estimator : classifier
    rows : array of shape (n_scored,)
        The samples that have scores.
    logits : array of shape (n_scored, n_classes)
    groups : array of shape (n_scored,) or None
        Scored samples that `auto` must not separate.
    """

    estimator: Any
    rows: Ints
    logits: Floats
    groups: npt.ArrayLike | None


def score_unseen(training: Training, cv: Any, n_jobs: int | None = None) -> Unseen:
    """Fit on all samples, and score samples by classifiers that were fitted without them, as `cv` says."""
    if not (isinstance(cv, str) and cv == "auto"):
        return _score_splits(training, list(_split(cv, training)), n_jobs)
    if _has_out_of_bag_scores(training):
        return _score_out_of_bag(training)
    n_folds, n_scored = _choose_folds(training)
    folds = _stratify(n_folds, training, shuffle=True, random_state=0)
    return _score_splits(training, list(_split(folds, training))[:n_scored], n_jobs)


def _choose_folds(training: Training) -> tuple[int, int]:
    """Choose how many folds are made and how many of them are scored: as few as show the rarest class well.

    Where it is small every sample counts, and classifiers should know most of them; halves are enough where it is
    larger. Where it is large, one part of the samples is. A part might have no sample of a class if groups must stay
    together.
    """
    observed = replace(training, labels=training.labels[training.observed], weights=None)
    rarest = observed.count(np.unique(training.labels)).min()
    if rarest < MIN_TO_HALVE:
        return 3, 3
    if rarest < MIN_TO_HOLD_OUT or training.groups is not None:
        return 2, 2
    return 3, 1


def _has_out_of_bag_scores(training: Training) -> bool:
    """Whether the classifier is of many trees (or others), each fitted without a part of the samples.

    A bag does not keep groups together. A classifier with a decision function is aligned by that, and what it says out
    of bag is probabilities.
    """
    base = training.base
    options = base.get_params(deep=False)
    return (
        "oob_score" in options
        and options.get("bootstrap") is True
        and options.get("warm_start") is not True
        and options.get("n_estimators", 0) >= MIN_BAGS
        and not hasattr(base, "decision_function")
        and not training.is_multilabel
        and training.groups is None
    )


def _score_out_of_bag(training: Training) -> Unseen:
    """Score each sample by those trees that were fitted without it; the fit on all samples is the only one."""
    wanted = training.base.get_params(deep=False)["oob_score"]
    scoring = clone(training.base).set_params(oob_score=wanted or True)
    with warnings.catch_warnings():  # of samples that are in every bag, which are left out here
        warnings.filterwarnings("ignore", message="Some inputs do not have OOB scores", category=UserWarning)
        warnings.filterwarnings("ignore", message="invalid value encountered", category=RuntimeWarning)
        estimator = replace(training, base=scoring).fit()
    probabilities = np.asarray(estimator.oob_decision_function_, dtype=np.float64)
    if not wanted:
        estimator.set_params(oob_score=wanted)
        del estimator.oob_decision_function_, estimator.oob_score_
    classes, counts = np.unique(training.labels[training.observed], return_counts=True)
    # Nobody who has not seen the only sample of a class could name it.
    known = np.isin(training.labels, classes[counts > 1])
    rows = np.flatnonzero(known & (probabilities.sum(axis=1) > 0.5))  # the sum is 0 or NaN if it is in every bag
    return Unseen(estimator, rows, log_probabilities(probabilities[rows]), None)


def _score_splits(training: Training, splits: list[tuple[Ints, Ints]], n_jobs: int | None) -> Unseen:
    """Fit once on all samples and once for each split, whose test samples are scored."""
    parts = list(_seen_and_scored(training, splits))
    if not parts:
        raise EnergyAlignError(
            "out-of-fold evidence is empty: the folds of cv score no sample by a classifier that knows its "
            "class and another. Use other folds or evidence='training'."
        )
    fits = (delayed(training.fit_and_score)(seen, scored) for seen, scored in parts)
    estimator, *found = Parallel(n_jobs=n_jobs)([delayed(training.fit)(), *fits])
    logits = np.full((len(training.labels), found[0].shape[1]), -np.inf)
    folds = np.full(len(training.labels), -1)
    for fold, ((_, scored), own) in enumerate(zip(parts, found, strict=True)):
        logits[scored], folds[scored] = own, fold
    rows = np.flatnonzero(folds >= 0)
    # Samples that one classifier scored have its errors in common. But `auto` makes five folds, and of fewer it would
    # leave out too much at a time.
    groups = folds if len(parts) >= 5 else training.groups
    return Unseen(estimator, rows, logits[rows], None if groups is None else np.asarray(groups)[rows])


def _seen_and_scored(training: Training, splits: list[tuple[Ints, Ints]]) -> Iterator[tuple[Ints, Ints]]:
    """The rows that a classifier is fitted on and those it scores, for each split that can be used.

    A test sample of a class that is not among the training samples of its split (the only one of its class, say) is
    trained on instead: no classifier that has not seen it could name it, and every classifier should know all classes.
    """
    labels, observed = training.labels, training.observed
    for train, test in splits:
        namable = _namable(labels[test], labels[train[observed[train]]])
        seen, scored = np.concatenate([train, test[~namable]]), test[namable]
        if len(scored) > 0 and len(np.unique(labels[seen[observed[seen]]])) > 1:
            yield seen, scored


def _namable(labels: npt.NDArray[Any], seen: npt.NDArray[Any]) -> Bools:
    """Which samples have only labels that are among those seen in training."""
    return np.isin(labels, seen) if labels.ndim == 1 else ~np.any(labels > seen.max(axis=0, initial=0), axis=1)


def _split(cv: Any, training: Training) -> Iterator[tuple[Ints, Ints]]:
    """Training and test samples of each fold."""
    labels = _strata(training)
    if isinstance(cv, numbers.Integral):
        cv = _stratify(int(cv), training)
    splitter = check_cv(cv, labels, classifier=True)
    with warnings.catch_warnings():
        # A class with fewer samples than folds is expected here: that is what a long tail is.
        warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
        yield from splitter.split(training.X, labels, training.groups)


def _stratify(n_folds: int, training: Training, **options: Any) -> StratifiedKFold | StratifiedGroupKFold:
    """Folds that keep groups together, no more of them than the largest class has samples."""
    largest = int(np.unique(_strata(training), return_counts=True)[1].max())
    if largest < 2:
        raise EnergyAlignError("out-of-fold evidence needs a class with at least 2 samples: use evidence='training'.")
    kind = StratifiedKFold if training.groups is None else StratifiedGroupKFold
    return kind(min(n_folds, largest), **options)


def _strata(training: Training) -> npt.NDArray[Any]:
    """What folds are stratified by."""
    return _rarest_label(training.labels) if training.is_multilabel else training.labels


def _rarest_label(labels: Ints) -> Ints:
    """Of each sample the rarest of its independent labels, or -1 if it has none."""
    rarest = np.where(labels == 1, labels.sum(axis=0), len(labels) + 1).argmin(axis=1)
    return np.where(labels.any(axis=1), rarest, -1)
