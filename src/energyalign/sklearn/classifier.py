"""Any classifier, with the class-imbalance bias taken out of its predictions."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedGroupKFold, check_cv
from sklearn.utils import assert_all_finite, column_or_1d, get_tags, indexable
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    _raise_for_params,
    _routing_enabled,
    process_routing,
)
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_method_params, _check_sample_weight, check_is_fitted, has_fit_parameter

from energyalign.core.arrays import Floats, Ints
from energyalign.core.errors import EnergyAlignError, classes_of, reason_of, some_of
from energyalign.core.evidence import EvidenceKind
from energyalign.core.multilabel import MultilabelShifts
from energyalign.core.names import Counts, columns_of
from energyalign.core.objectives import Aims
from energyalign.core.shifts import Shifts
from energyalign.sklearn.aligner import EnergyAligner
from energyalign.sklearn.columns import labels_of
from energyalign.sklearn.scores import class_logits, label_logits


class EnergyAlignedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Fit a classifier and align the energies of its classes, so that rare ones are not passed over.

    The shifts are learnt from what the classifier says about samples it was not trained on: fold by fold on
    the training data, or on the data given to `fit` if the classifier is frozen. The classifier that
    predicts is trained on all of it.

    Parameters
    ----------
    estimator : classifier, optional
        Any scikit-learn classifier with `decision_function` or `predict_proba`, or a fitted one in a
        `sklearn.frozen.FrozenEstimator`. A fitted one without it is copied and fitted anew, as by every
        meta-estimator of scikit-learn, with a warning. Logistic regression if not given.
    aligner : EnergyAligner, optional
        How to align. With probabilities only, estimator ``lse`` does not apply, because softmax has removed
        what it needs.
    evidence : {"auto", "out-of-fold", "training", "held-out"}
        ``auto`` means ``out-of-fold``, or ``held-out`` for a frozen classifier. ``training`` scores the
        very samples that the classifier was trained on: faster, and only as good as the classifier is modest.
    cv : int, splitter or iterable of splits
        The folds of ``out-of-fold`` evidence. A number means so many stratified ones, which keep `groups` together.
    scoring, costs, minimum_recall, minimum_precision : optional
        What the predictions should be best at; see `EnergyAligner`. By default as `aligner` has them.

    Attributes
    ----------
    estimator_ : classifier
        Fitted on all data.
    aligner_ : EnergyAligner
    shifts_ : Shifts, or MultilabelShifts for independent labels
    classes_ : array of shape (n_classes,)
        Of independent labels the names or numbers of the columns of y.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = make_classification(1000, weights=[0.95], class_sep=0.5, random_state=0)
    >>> model = EnergyAlignedClassifier(LogisticRegression()).fit(X, y)
    >>> common, rare = model.shifts_.values
    >>> bool(rare > common)
    True
    """

    __metadata_request__fit: ClassVar = {"groups": True}  # scikit-learn's metadata routing: asked for by default

    def __init__(
        self,
        estimator: Any = None,
        *,
        aligner: EnergyAligner | None = None,
        evidence: Literal["auto", "out-of-fold", "training", "held-out"] = "auto",
        cv: Any = 5,
        scoring: str | Callable[..., float] | None = None,
        costs: npt.ArrayLike | None = None,
        minimum_recall: Mapping[Any, float] | None = None,
        minimum_precision: Mapping[Any, float] | None = None,
    ) -> None:
        self.estimator = estimator
        self.aligner = aligner
        self.evidence = evidence
        self.cv = cv
        self.scoring = scoring
        self.costs = costs
        self.minimum_recall = minimum_recall
        self.minimum_precision = minimum_precision

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: npt.ArrayLike | None = None,
        *,
        counts: Counts | None = None,
        groups: npt.ArrayLike | None = None,
        **params: Any,
    ) -> Self:
        """Fit the classifier and the shifts.

        Parameters
        ----------
        X, y : training data, or for a frozen classifier data to align it on
            A matrix y of 0 and 1 is of independent labels, each with a shift of its own, unless every row has a single
            1: that is one-hot, and of independent labels only with ``aligner=EnergyAligner(multilabel=True)``.
        sample_weight : array of shape (n_samples,), optional
            How often each sample was observed; passed on to the classifier. With metadata routing, as the classifier
            requests it.
        counts : array of shape (n_classes,), dict, Counter, pandas Series or DataFrame, or Dataset, optional
            Training samples per class, by name wherever they have names. Needed only if `y` does not show them (a
            frozen classifier and balanced data).
        groups : array of shape (n_samples,), optional
            Samples that belong together (of one patient, say): no fold separates them, unless `cv` ignores groups.
        **params : dict
            What the classifier requests, with scikit-learn's metadata routing only.
        """
        base = self._base()
        frozen = isinstance(base, FrozenEstimator)
        kind = self._choose_kind(frozen)
        if not frozen and _is_fitted(base):
            warnings.warn(
                f"{type(base).__name__} is fitted already, and a copy of it is fitted anew on this data. To keep it as "
                "it is, wrap it in sklearn.frozen.FrozenEstimator and give fit() samples that it was not trained on.",
                stacklevel=2,
            )
        X, y, groups = indexable(X, y, groups)
        asked = self.aligner is not None and self.aligner.multilabel
        flat = np.asarray(y) if asked else labels_of(y)
        multilabel = np.ndim(flat) == 2 and type_of_target(flat) == "multilabel-indicator"
        if multilabel:
            labels, names = flat.astype(np.int64), columns_of(y)
        else:
            labels = column_or_1d(flat if flat.ndim < np.ndim(y) else y, warn=True)
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X, dtype=np.float64)
        _refuse_unusable(labels, weights, frozen=frozen)
        passed = self._passed_on(base, weights, groups, params)
        self.estimator_ = base.fit(X, labels) if frozen else _fit_on(base, X, labels, passed)
        if not hasattr(self.estimator_, "classes_"):
            raise EnergyAlignError(f"{type(base).__name__} is no classifier: it has no classes_ after fit.")
        if multilabel:
            self.classes_ = np.arange(labels.shape[1]) if names is None else np.array(names)
        else:
            self.classes_ = np.asarray(self.estimator_.classes_)
        self._multilabel = multilabel
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)  # of an earlier fit
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        if kind == "out-of-fold":
            logits, groups = self._out_of_fold(base, X, labels, weights=weights, groups=groups, passed=passed)
            scored = groups >= 0
        else:
            logits = self._logits(self.estimator_, X)
            scored = np.ones(len(labels), dtype=bool)
        self.aligner_ = EnergyAligner() if self.aligner is None else clone(self.aligner)
        aims = {name: getattr(self, name) for name in Aims.__annotations__}
        given = {name: value for name, value in aims.items() if value is not None}
        self.aligner_.set_params(evidence=kind, classes=self.classes_, multilabel=multilabel, **given)
        self.aligner_.fit(
            logits[scored],
            labels[scored],
            counts=_count(labels, weights, self.classes_) if counts is None and not frozen else counts,
            sample_weight=None if weights is None else weights[scored],
            groups=None if groups is None else np.asarray(groups)[scored],
        )
        return self

    def _choose_kind(self, frozen: bool) -> EvidenceKind:
        known = ("auto", "out-of-fold", "training", "held-out")
        if self.evidence not in known:
            raise EnergyAlignError(f"unknown evidence {self.evidence!r}: choose {', '.join(known)}.")
        if self.evidence == "auto":
            return "held-out" if frozen else "out-of-fold"
        if self.evidence == "held-out" and not frozen:
            raise EnergyAlignError(
                "evidence='held-out' needs a classifier that is fitted already: wrap it in "
                "sklearn.frozen.FrozenEstimator and give fit() the held-out data."
            )
        if self.evidence == "out-of-fold" and frozen:
            raise EnergyAlignError(
                "a frozen classifier cannot be refitted fold by fold: use evidence='held-out' or 'training'."
            )
        return self.evidence

    def _base(self) -> Any:
        if self.estimator is not None:
            return self.estimator
        default = LogisticRegression()
        return default.set_fit_request(sample_weight=True) if _routing_enabled() else default

    def get_metadata_routing(self) -> MetadataRouter:
        """What `fit` takes and passes on to the classifier, for scikit-learn's metadata routing."""
        mapping = MethodMapping().add(caller="fit", callee="fit")
        return MetadataRouter(owner=self).add_self_request(self).add(estimator=self._base(), method_mapping=mapping)

    def _passed_on(self, base: Any, weights: Floats | None, groups: Any, params: dict[str, Any]) -> dict[str, Any]:
        """What the `fit` of the classifier gets besides samples and labels."""
        _raise_for_params(params, self, "fit")
        if _routing_enabled():
            given = {"sample_weight": weights, "groups": groups, **params}
            given = {name: value for name, value in given.items() if value is not None}
            passed: dict[str, Any] = process_routing(self, "fit", **given)["estimator"]["fit"]
            return passed
        if weights is None or isinstance(base, FrozenEstimator):
            return {}
        if not has_fit_parameter(base, "sample_weight"):
            raise EnergyAlignError(f"{type(base).__name__} takes no sample_weight: fit without weights.")
        return {"sample_weight": weights}

    def _out_of_fold(
        self,
        base: Any,
        X: Any,
        labels: npt.NDArray[Any],
        *,
        weights: Floats | None,
        groups: Any,
        passed: dict[str, Any],
    ) -> tuple[Floats, Ints]:
        """Logits of each sample by a classifier that has not seen it, and its fold.

        The fold is -1 for a sample that no fold scores. One of a class that is not among the training samples
        of its fold (the only one of its class, say) is trained on instead: no classifier that has not seen it
        could name it, and every classifier should know all classes.
        """
        logits = np.full((len(labels), len(self.classes_)), -np.inf)
        folds = np.full(len(labels), -1)
        observed = np.ones(len(labels), dtype=bool) if weights is None else weights > 0
        for fold, (train, test) in enumerate(_splits(self.cv, X, labels, groups)):
            namable = _namable(labels[test], labels[train[observed[train]]])
            seen, scored = np.concatenate([train, test[~namable]]), test[namable]
            if len(scored) == 0 or len(np.unique(labels[seen[observed[seen]]])) < 2:
                continue
            part = _check_method_params(X, passed, indices=seen)
            fitted = _fit_on(base, _safe_split(base, X, None, seen)[0], labels[seen], part)
            rows, _ = _safe_split(base, X, None, scored, seen)
            logits[scored] = self._logits(fitted, rows)
            folds[scored] = fold
        if not np.any(folds >= 0):
            raise EnergyAlignError(
                "out-of-fold evidence is empty: the folds of cv score no sample by a classifier that knows its "
                "class and another. Use other folds or evidence='training'."
            )
        return logits, folds

    @property
    def shifts_(self) -> Shifts | MultilabelShifts:
        """One shift per class or independent label, with diagnostics."""
        return self.aligner_.shifts_

    def _logits(self, classifier: Any, X: Any) -> Floats:
        if self._multilabel:
            return label_logits(classifier, X, len(self.classes_))
        return class_logits(classifier, X, self.classes_)

    def decision_function(self, X: Any) -> Floats:
        """Corrected logits; for two classes their difference."""
        check_is_fitted(self)
        corrected: Floats = self.aligner_.transform(self._logits(self.estimator_, X))
        is_binary = len(self.classes_) == 2 and not self._multilabel
        return corrected[:, 1] - corrected[:, 0] if is_binary else corrected

    def predict_proba(self, X: Any) -> Floats:
        """Softmax of the corrected logits; of independent labels their sigmoid."""
        check_is_fitted(self)
        probabilities: Floats = self.aligner_.predict_proba(self._logits(self.estimator_, X))
        return probabilities

    def predict_log_proba(self, X: Any) -> Floats:
        """Logarithm of `predict_proba`, exact also where a probability rounds to 0."""
        check_is_fitted(self)
        logarithms: Floats = self.aligner_.predict_log_proba(self._logits(self.estimator_, X))
        return logarithms

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The class of the largest corrected logit; 0 or 1 for each of independent labels."""
        check_is_fitted(self)
        return self.aligner_.predict(self._logits(self.estimator_, X))

    def onnx_parser(self) -> None:
        """Introduce this class to skl2onnx, which asks for these three methods; its own parser is good enough."""
        from energyalign.sklearn.onnx_conversion import register

        register(type(self))

    def onnx_shape_calculator(self) -> Callable[[Any], None]:
        """For skl2onnx: a function that sets the types of labels and probabilities."""
        from energyalign.sklearn.onnx_conversion import calculate_shapes

        return calculate_shapes

    def onnx_converter(self) -> Callable[[Any, Any, Any], None]:
        """For skl2onnx: a function that adds the nodes of this model to a graph."""
        from energyalign.sklearn.onnx_conversion import convert

        return convert

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        base = get_tags(LogisticRegression() if self.estimator is None else self.estimator)
        tags.input_tags.sparse = base.input_tags.sparse
        tags.input_tags.allow_nan = base.input_tags.allow_nan
        tags.input_tags.pairwise = base.input_tags.pairwise
        return tags


def _refuse_unusable(labels: npt.NDArray[Any], weights: Floats | None, *, frozen: bool) -> None:
    if weights is not None and np.any(weights < 0):
        raise EnergyAlignError("sample_weight must not be negative.")
    if labels.ndim == 2:
        seen = labels if weights is None else labels[weights > 0]
        alike = np.flatnonzero(seen.min(axis=0, initial=1) == seen.max(axis=0, initial=0)).tolist()
        if alike and not frozen:  # a classifier that is fitted knows the label, and the aligner says what it lacks
            raise EnergyAlignError(f"every sample has the same y in column {some_of(alike)}: leave it out.")
        return
    classes = np.unique(labels)
    present = classes if weights is None else np.unique(labels[weights > 0])
    if len(present) < 2:
        raise EnergyAlignError(f"y has one class only ({some_of(present.tolist())}); at least 2 classes are needed.")
    if len(present) < len(classes):
        absent = np.setdiff1d(classes, present).tolist()
        raise EnergyAlignError(f"all samples of {classes_of(absent)} have weight 0: leave them out.")


def _fit_on(base: Any, X: Any, labels: npt.NDArray[Any], passed: dict[str, Any]) -> Any:
    """A fitted copy of `base`."""
    try:
        return clone(base).fit(X, labels, **passed)
    except ValueError as error:
        name = type(base).__name__
        if labels.ndim == 2 and "1d array" in str(error):
            raise EnergyAlignError(
                f"{name} takes one label per sample, and y has {labels.shape[1]} independent labels: give "
                f"sklearn.multiclass.OneVsRestClassifier({name}(...)), or y as class numbers."
            ) from error
        if "Invalid classes inferred" not in str(error):  # XGBoost takes the numbers 0, 1, 2, ... alone
            raise
        raise EnergyAlignError(
            f"{name} does not take these labels ({reason_of(error)}): encode them first, "
            "y = sklearn.preprocessing.LabelEncoder().fit_transform(y)."
        ) from error


def _is_fitted(estimator: Any) -> bool:
    try:
        check_is_fitted(estimator)
    except (NotFittedError, TypeError):
        return False
    return True


def _splits(cv: Any, X: Any, labels: npt.NDArray[Any], groups: Any) -> Iterator[tuple[Ints, Ints]]:
    """Stratified folds, no more of them than the largest class has samples."""
    if isinstance(cv, numbers.Integral):
        labels = _rarest_label(labels) if labels.ndim == 2 else labels
        largest = int(np.unique(labels, return_counts=True)[1].max())
        if largest < 2:
            raise EnergyAlignError(
                "out-of-fold evidence needs a class with at least 2 samples: use evidence='training'."
            )
        cv = min(int(cv), largest) if groups is None else StratifiedGroupKFold(min(int(cv), largest))
    splitter = check_cv(cv, labels, classifier=True)
    with warnings.catch_warnings():
        # A class with fewer samples than folds is expected here: that is what a long tail is.
        warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
        yield from splitter.split(X, labels, groups)


def _rarest_label(labels: Ints) -> Ints:
    """What folds of independent labels are stratified by: of each sample its rarest label, or -1 if it has none."""
    rarest = np.where(labels == 1, labels.sum(axis=0), len(labels) + 1).argmin(axis=1)
    return np.where(labels.any(axis=1), rarest, -1)


def _namable(labels: npt.NDArray[Any], seen: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which samples have only labels that are among those seen in training."""
    return np.isin(labels, seen) if labels.ndim == 1 else ~np.any(labels > seen.max(axis=0, initial=0), axis=1)


def _count(labels: npt.NDArray[Any], weights: Floats | None, classes: npt.NDArray[Any]) -> Floats:
    """Samples of each class; without and with each of independent labels."""
    if labels.ndim == 2:
        each = np.ones(len(labels)) if weights is None else weights
        return np.column_stack([each @ (1 - labels), each @ labels])
    return np.bincount(np.searchsorted(classes, labels), weights=weights, minlength=len(classes)).astype(np.float64)
