"""Scores of samples by classifiers that were not trained on them: out of bag, held out, or out of fold."""

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
MIN_BAGS = 300  # only a third of them score a sample: with fewer, its probabilities are too coarse


class Unseen(NamedTuple):
    """A classifier fitted on all samples, and logits of some `rows` by classifiers that were not trained on them.

    `groups` of the scored rows must not be separated by `auto`.
    """

    estimator: Any
    rows: Ints
    logits: Floats
    groups: npt.ArrayLike | None


def score_unseen(training: Training, cv: Any, n_jobs: int | None = None) -> Unseen:
    """Fit on all samples, and score the samples that `cv` selects by classifiers fitted without them."""
    if not (isinstance(cv, str) and cv == "auto"):
        return _score_splits(training, list(_split(cv, training)), n_jobs)
    if _has_out_of_bag_scores(training):
        return _score_out_of_bag(training)
    n_folds, n_scored = _choose_folds(training)
    folds = _stratify(n_folds, training, shuffle=True, random_state=0)
    return _score_splits(training, list(_split(folds, training))[:n_scored], n_jobs)


def _choose_folds(training: Training) -> tuple[int, int]:
    """Return the number of folds and how many of them to score: as few as the rarest class allows.

    A small class needs the scores of all its samples, by classifiers fitted on most of them. For a larger class two
    folds are enough, and for a large one a single fold, unless groups could leave that fold without some class.
    """
    observed = replace(training, labels=training.labels[training.observed], weights=None)
    rarest = observed.count(np.unique(training.labels)).min()
    if rarest < MIN_TO_HALVE:
        return 3, 3
    if rarest < MIN_TO_HOLD_OUT or training.groups is not None:
        return 2, 2
    return 3, 1


def _has_out_of_bag_scores(training: Training) -> bool:
    """Return whether the classifier is an ensemble of at least `MIN_BAGS` members with usable out-of-bag scores.

    They cannot be used with groups, since a bootstrap sample does not keep a group together, or if the classifier has
    a decision function, since out-of-bag scores are probabilities.
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
    """Fit once, and score each sample with the members fitted without it."""
    wanted = training.base.get_params(deep=False)["oob_score"]
    scoring = clone(training.base).set_params(oob_score=wanted or True)
    with warnings.catch_warnings():  # samples that are in every bag are left out below
        warnings.filterwarnings("ignore", message="Some inputs do not have OOB scores", category=UserWarning)
        warnings.filterwarnings("ignore", message="invalid value encountered", category=RuntimeWarning)
        estimator = replace(training, base=scoring).fit()
    probabilities = np.asarray(estimator.oob_decision_function_, dtype=np.float64)
    if not wanted:
        estimator.set_params(oob_score=wanted)
        del estimator.oob_decision_function_, estimator.oob_score_
    classes, counts = np.unique(training.labels[training.observed], return_counts=True)
    # A member fitted without the only sample of a class does not know the class.
    known = np.isin(training.labels, classes[counts > 1])
    rows = np.flatnonzero(known & (probabilities.sum(axis=1) > 0.5))  # 0 or NaN for a sample in every bag
    return Unseen(estimator, rows, log_probabilities(probabilities[rows]), None)


def _score_splits(training: Training, splits: list[tuple[Ints, Ints]], n_jobs: int | None) -> Unseen:
    """Fit on all samples and on each split, and score the test samples of the split."""
    parts = list(_seen_and_scored(training, splits))
    if not parts:
        raise EnergyAlignError(
            "out-of-fold evidence is empty: no fold of cv tests a class while it trains on that class and another. "
            "Use other folds or evidence='training'."
        )
    fits = (delayed(training.fit_and_score)(seen, scored) for seen, scored in parts)
    estimator, *scores = Parallel(n_jobs=n_jobs)([delayed(training.fit)(), *fits])
    logits = np.full((len(training.labels), scores[0].shape[1]), -np.inf)
    folds = np.full(len(training.labels), -1)
    for fold, ((_, scored), own) in enumerate(zip(parts, scores, strict=True)):
        logits[scored], folds[scored] = own, fold
    rows = np.flatnonzero(folds >= 0)
    # Samples scored by one classifier share its errors, so `auto` keeps them together. It makes five folds, and fewer
    # groups would leave out too many samples at a time.
    groups = folds if len(parts) >= 5 else training.groups
    return Unseen(estimator, rows, logits[rows], None if groups is None else np.asarray(groups)[rows])


def _seen_and_scored(training: Training, splits: list[tuple[Ints, Ints]]) -> Iterator[tuple[Ints, Ints]]:
    """Yield the rows to fit on and the rows to score, for each usable split.

    A test sample whose class has no training samples in the split (such as the only sample of its class) becomes a
    training sample: otherwise the classifier would not know the class.
    """
    labels, observed = training.labels, training.observed
    for train, test in splits:
        known = _has_known_labels(labels[test], labels[train[observed[train]]])
        seen, scored = np.concatenate([train, test[~known]]), test[known]
        if len(scored) > 0 and len(np.unique(labels[seen[observed[seen]]])) > 1:
            yield seen, scored


def _has_known_labels(labels: npt.NDArray[Any], seen: npt.NDArray[Any]) -> Bools:
    """Return which samples have only labels that were seen in training."""
    return np.isin(labels, seen) if labels.ndim == 1 else ~np.any(labels > seen.max(axis=0, initial=0), axis=1)


def _split(cv: Any, training: Training) -> Iterator[tuple[Ints, Ints]]:
    """Yield the training and test rows of each fold."""
    labels = _strata(training)
    if isinstance(cv, numbers.Integral):
        cv = _stratify(int(cv), training)
    splitter = check_cv(cv, labels, classifier=True)
    with warnings.catch_warnings():
        # In a long tail, classes with fewer samples than folds are normal.
        warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
        yield from splitter.split(training.X, labels, training.groups)


def _stratify(n_folds: int, training: Training, **options: Any) -> StratifiedKFold | StratifiedGroupKFold:
    """Return a splitter that keeps groups together, with at most as many folds as the largest class has samples."""
    largest = int(np.unique(_strata(training), return_counts=True)[1].max())
    if largest < 2:
        raise EnergyAlignError("out-of-fold evidence needs a class with at least 2 samples: use evidence='training'.")
    kind = StratifiedKFold if training.groups is None else StratifiedGroupKFold
    return kind(min(n_folds, largest), **options)


def _strata(training: Training) -> npt.NDArray[Any]:
    """Return the classes by which folds are stratified."""
    return _rarest_label(training.labels) if training.is_multilabel else training.labels


def _rarest_label(labels: Ints) -> Ints:
    """Return the rarest independent label of each sample, or -1 if it has none."""
    rarest = np.where(labels == 1, labels.sum(axis=0), len(labels) + 1).argmin(axis=1)
    return np.where(labels.any(axis=1), rarest, -1)
