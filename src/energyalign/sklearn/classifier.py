"""scikit-learn meta-estimator that removes the class-imbalance bias of a classifier."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.utils import assert_all_finite, column_or_1d, get_tags, indexable
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    _raise_for_params,
    _routing_enabled,
    process_routing,
)
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, has_fit_parameter

from energyalign.core.arrays import Floats
from energyalign.core.errors import EnergyAlignError
from energyalign.core.evidence import EvidenceKind
from energyalign.core.multilabel import MultilabelShifts
from energyalign.core.names import Counts, columns_of
from energyalign.core.objectives import Aims
from energyalign.core.shifts import Shifts
from energyalign.sklearn.aligner import EnergyAligner
from energyalign.sklearn.columns import labels_of
from energyalign.sklearn.scores import class_logits, label_logits
from energyalign.sklearn.training import Training
from energyalign.sklearn.unseen import Unseen, score_unseen

MAX_FAST_ROWS = 1000  # up to this many rows, input checks take longer than the prediction


class EnergyAlignedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Fit a classifier and align the energies of its classes, so that rare classes are predicted too.

    The shifts are learnt from scores of samples that the classifier was not trained on: out-of-fold or out-of-bag
    scores or, for a frozen classifier, scores of the data passed to `fit`. The final classifier is fitted on all data.

    Parameters
    ----------
    estimator : classifier, default=None
        Any scikit-learn classifier with `decision_function` or `predict_proba`, or a fitted one in a
        `sklearn.frozen.FrozenEstimator`. Any other fitted classifier is cloned and refitted, as in every meta-estimator
        of scikit-learn, with a warning. None is logistic regression.
    aligner : EnergyAligner, default=None
        How to align. Estimator ``lse`` does not apply to a classifier with probabilities only: softmax has
        removed the constant per sample that it needs. None is ``EnergyAligner()``.
    evidence : {"auto", "out-of-fold", "training", "held-out"}, default="auto"
        ``auto`` is ``out-of-fold``, or ``held-out`` for a frozen classifier. ``training`` scores the samples that the
        classifier was trained on: faster, but bad for a classifier that overfits.
    cv : "auto", int, splitter or iterable of splits, default="auto"
        Folds of ``out-of-fold`` evidence. An int is the number of stratified folds, which keep `groups` together.
        ``auto`` uses as few fits as the rarest class allows:

        - forests and bagging with at least 300 members: out-of-bag scores, without further fits;
        - fewer than 100 samples of the rarest class: three folds;
        - fewer than 300 samples of the rarest class, or `groups`: two folds;
        - otherwise a third of the samples, scored by a classifier fitted on the rest.
    n_jobs : int, default=None
        Number of fits to run in parallel, with joblib. None is 1.
    scoring, costs, minimum_recall, minimum_precision : default=None
        Objective of the predictions; see `EnergyAligner`. None keeps the objective of `aligner`.

    Attributes
    ----------
    estimator_ : classifier
        The classifier, fitted on all data.
    aligner_ : EnergyAligner
    shifts_ : Shifts, or MultilabelShifts for independent labels
    classes_ : array of shape (n_classes,)
        The classes; for independent labels the names or numbers of the columns of y.

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

    __metadata_request__fit: ClassVar = {"groups": True}  # metadata routing: requested by default

    def __init__(
        self,
        estimator: Any = None,
        *,
        aligner: EnergyAligner | None = None,
        evidence: Literal["auto", "out-of-fold", "training", "held-out"] = "auto",
        cv: Any = "auto",
        n_jobs: int | None = None,
        scoring: str | Callable[..., float] | None = None,
        costs: npt.ArrayLike | None = None,
        minimum_recall: Mapping[Any, float] | None = None,
        minimum_precision: Mapping[Any, float] | None = None,
    ) -> None:
        self.estimator = estimator
        self.aligner = aligner
        self.evidence = evidence
        self.cv = cv
        self.n_jobs = n_jobs
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
        X, y : training data, or data to align a frozen classifier on
            A matrix y of 0 and 1 holds independent labels, each with its own shift. If every row has a single 1, it is
            one-hot, unless ``aligner=EnergyAligner(multilabel=True)``.
        sample_weight : array of shape (n_samples,), default=None
            How often each sample was observed; passed to the classifier. With metadata routing, only if the classifier
            requests it.
        counts : array of shape (n_classes,), dict, Counter, pandas Series or DataFrame, or Dataset, default=None
            Training samples per class, matched by name if they have names. Only needed for a frozen classifier if `y`
            is not distributed like its training data.
        groups : array of shape (n_samples,), default=None
            Samples of one group (a patient, say) stay in one fold, unless `cv` ignores groups.
        **params : dict
            Metadata that the classifier requests; requires scikit-learn's metadata routing.
        """
        base = self._base()
        frozen = isinstance(base, FrozenEstimator)
        kind = self._choose_kind(frozen)
        if not frozen and _is_fitted(base):
            warnings.warn(
                f"{type(base).__name__} is fitted already: a clone is refitted on this data. To keep the fitted "
                "classifier, wrap it in sklearn.frozen.FrozenEstimator and give fit() samples it was not trained on.",
                stacklevel=2,
            )
        X, y, groups = indexable(X, y, groups)
        labels, names = self._read_labels(y)
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X, dtype=np.float64)
        training = Training(base, X, labels, weights, groups, self._route(base, weights, groups, params))
        training.check(frozen=frozen)
        scored = score_unseen(training, self.cv, self.n_jobs) if kind == "out-of-fold" else None
        self.estimator_ = training.fit() if scored is None else scored.estimator
        self._multilabel = training.is_multilabel
        self.classes_ = np.asarray(names if self._multilabel else self.estimator_.classes_)
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)  # from an earlier fit
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        if scored is None:
            scored = Unseen(self.estimator_, np.arange(len(labels)), self._logits(X), groups)
        self.aligner_ = EnergyAligner() if self.aligner is None else clone(self.aligner)
        aims = {name: getattr(self, name) for name in Aims.__annotations__}
        given = {name: value for name, value in aims.items() if value is not None}
        self.aligner_.set_params(evidence=kind, classes=self.classes_, multilabel=self._multilabel, **given)
        self.aligner_.fit(
            scored.logits,
            labels[scored.rows],
            counts=training.count(self.classes_) if counts is None and not frozen else counts,
            sample_weight=None if weights is None else weights[scored.rows],
            groups=scored.groups,
        )
        return self

    def _read_labels(self, y: Any) -> tuple[npt.NDArray[Any], Any]:
        """Return the labels for the classifier, and the names of independent labels."""
        multilabel = self.aligner is not None and self.aligner.multilabel
        flat = np.asarray(y) if multilabel else labels_of(y)
        names: Any = None
        if np.ndim(flat) == 2 and type_of_target(flat) == "multilabel-indicator":
            labels = flat.astype(np.int64)
            names = columns_of(y) or np.arange(labels.shape[1])
        else:
            labels = column_or_1d(flat if flat.ndim < np.ndim(y) else y, warn=True)
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        return labels, names

    def _choose_kind(self, frozen: bool) -> EvidenceKind:
        known = ("auto", "out-of-fold", "training", "held-out")
        if self.evidence not in known:
            raise EnergyAlignError(f"unknown evidence {self.evidence!r}: choose {', '.join(known)}.")
        if self.evidence == "auto":
            return "held-out" if frozen else "out-of-fold"
        if self.evidence == "held-out" and not frozen:
            raise EnergyAlignError(
                "evidence='held-out' needs a fitted classifier: wrap it in sklearn.frozen.FrozenEstimator and give "
                "fit() the held-out data."
            )
        if self.evidence == "out-of-fold" and frozen:
            raise EnergyAlignError(
                "evidence='out-of-fold' cannot refit a frozen classifier: use evidence='held-out' or 'training'."
            )
        return self.evidence

    def _base(self) -> Any:
        if self.estimator is not None:
            return self.estimator
        default = LogisticRegression()
        return default.set_fit_request(sample_weight=True) if _routing_enabled() else default

    def get_metadata_routing(self) -> MetadataRouter:
        """Return what `fit` accepts and passes to the classifier, for scikit-learn's metadata routing."""
        mapping = MethodMapping().add(caller="fit", callee="fit")
        return MetadataRouter(owner=self).add_self_request(self).add(estimator=self._base(), method_mapping=mapping)

    def _route(self, base: Any, weights: Floats | None, groups: Any, params: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters for `fit` of the classifier."""
        _raise_for_params(params, self, "fit")
        if _routing_enabled():
            given = {"sample_weight": weights, "groups": groups, **params}
            given = {name: value for name, value in given.items() if value is not None}
            routed: dict[str, Any] = process_routing(self, "fit", **given)["estimator"]["fit"]
            return routed
        if weights is None or isinstance(base, FrozenEstimator):
            return {}
        if not has_fit_parameter(base, "sample_weight"):
            raise EnergyAlignError(f"{type(base).__name__} does not support sample_weight: fit without weights.")
        return {"sample_weight": weights}

    @property
    def shifts_(self) -> Shifts | MultilabelShifts:
        """Shifts of the classes or independent labels, with diagnostics."""
        return self.aligner_.shifts_

    def _logits(self, X: Any) -> Floats:
        if self._multilabel:
            return label_logits(self.estimator_, X, len(self.classes_))
        return class_logits(self.estimator_, X, self.classes_)

    def _logits_if_fitted(self, X: Any) -> Floats:
        if not hasattr(self, "aligner_"):  # check_is_fitted is slow: it collects tags
            check_is_fitted(self, "aligner_")
        return self._logits(X)

    def decision_function(self, X: Any) -> Floats:
        """Return the aligned logits; for two classes their difference."""
        logits = self._logits_if_fitted(X)
        aligned: Floats = self.aligner_.transform(logits)
        is_binary = len(self.classes_) == 2 and not self._multilabel
        return aligned[:, 1] - aligned[:, 0] if is_binary else aligned

    def predict_proba(self, X: Any) -> Floats:
        """Return the softmax of the aligned logits; for independent labels their sigmoid."""
        logits = self._logits_if_fitted(X)
        probabilities: Floats = self.aligner_.predict_proba(logits)
        return probabilities

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithm of `predict_proba`, exact even if a probability rounds to 0."""
        logits = self._logits_if_fitted(X)
        log_probabilities: Floats = self.aligner_.predict_log_proba(logits)
        return log_probabilities

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the class of the largest aligned logit; for independent labels 0 or 1 for each."""
        logits, shifts = self._logits_if_fitted(X), self.shifts_
        if isinstance(shifts, Shifts) and not shifts.from_probabilities and len(logits) <= MAX_FAST_ROWS:
            aligned = logits + shifts.values
            if not np.isnan(aligned).any():
                return np.asarray(self.classes_[aligned.argmax(axis=1)])
        return self.aligner_.predict(logits)

    def onnx_parser(self) -> None:
        """Register this class with skl2onnx, which calls these three methods and then uses its default parser."""
        from energyalign.sklearn.onnx_conversion import register

        register(type(self))

    def onnx_shape_calculator(self) -> Callable[[Any], None]:
        """Return the function of skl2onnx that sets the types of labels and probabilities."""
        from energyalign.sklearn.onnx_conversion import calculate_shapes

        return calculate_shapes

    def onnx_converter(self) -> Callable[[Any, Any, Any], None]:
        """Return the function of skl2onnx that adds the nodes of this model to a graph."""
        from energyalign.sklearn.onnx_conversion import convert

        return convert

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        base = get_tags(self._base())
        tags.input_tags.sparse = base.input_tags.sparse
        tags.input_tags.allow_nan = base.input_tags.allow_nan
        tags.input_tags.pairwise = base.input_tags.pairwise
        return tags


def _is_fitted(estimator: Any) -> bool:
    try:
        check_is_fitted(estimator)
    except (NotFittedError, TypeError):
        return False
    return True
