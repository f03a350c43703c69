"""scikit-learn transformer and classifier of logits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from energyalign.core.arrays import Array, array_of, as_array, as_logits, to_numpy
from energyalign.core.errors import EnergyAlignError, warn_untrusted
from energyalign.core.evidence import Evidence, EvidenceKind
from energyalign.core.fitting import fit_shifts
from energyalign.core.free_energy import FreeEnergy
from energyalign.core.heads import IGNORE_INDEX, n_columns, open_head
from energyalign.core.multilabel import MultilabelEvidence, MultilabelShifts, fit_multilabel, parse_shifts
from energyalign.core.names import Counts, columns_of
from energyalign.core.objectives import Aims, make_objective
from energyalign.core.probabilities import TAKEN_AS_LOGITS, are_probabilities, log_probabilities
from energyalign.core.sharing import SharingChoice
from energyalign.core.shifts import Shifts
from energyalign.sklearn.columns import categories_of, encode, find_columns, labels_of, reorder

_FIT_OPTIONS = ("estimator", "clusters", "target_prior", "tau", *Aims.__annotations__)


class EnergyAligner(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Learn one shift per class from logits, and add it to logits.

    Parameters
    ----------
    estimator : str, default="auto"
        How class energies are estimated: a name in `energyalign.core.estimators.ESTIMATORS`, or ``auto``: the first of
        ``shrunk``, ``marginal``, ``lse`` and ``prior`` that applies. If the model was not trained on the samples,
        ``auto`` scales the shifts by the strength that scores best; 0 keeps the raw model.
    clusters : "auto", "per-class", "monotone", "jenks", int, sequence of int, or Clusters, default="auto"
        Which classes share a shift. A number is the number of Jenks clusters of the training counts; ``jenks`` chooses
        the number that scores best, as in the paper.
    target_prior : array of shape (n_classes,), dict or pandas Series, default=None
        Label distribution to predict for. None is uniform.
    evidence : {"training", "out-of-fold", "held-out"}, default="training"
        Whether the model was trained on these samples. A model is right about nearly all of its ``training`` samples,
        so `auto` does not score on them.
    tau : float, default=1.0
        Scale of estimator ``prior``.
    classes : array of shape (n_classes,), default=None
        Label of each column. Not needed for labels 0..n_classes-1, or if `y` contains every class: then the columns are
        in sorted order, or in the order of the categories of a pandas Categorical. The columns of a data frame are
        matched by name.
    scoring : str or callable, default="balanced_accuracy"
        Metric that the predictions should maximise: ``balanced_accuracy``, ``accuracy``, ``f1`` (of the second of two
        classes), ``f1_macro``, ``f1_weighted``, ``jaccard_macro``, ``matthews_corrcoef``, ``geometric_mean``, any
        scikit-learn scorer of labels, or a function ``(y_true, y_pred[, sample_weight])``. Needs labels, and
        out-of-fold or held-out evidence.
    costs : array of shape (n_classes, n_classes) or pandas DataFrame, default=None
        ``costs[k, j]`` is the cost of predicting class j for a sample of class k; replaces `scoring`. A data frame is
        matched by the names of its rows and columns.
    minimum_recall, minimum_precision : dict of class to number, default=None
        Minimum to reach on the evidence, e.g. ``{"fraud": 0.8}``. An error is raised if it cannot be reached.
    multilabel : bool, default=False
        Whether columns are independent labels, each with its own sigmoid.
    ignore_index : int, default=-100
        Label of positions to ignore: padding of a sequence, border of a mask, unknown labels.

    Attributes
    ----------
    shifts_ : Shifts, or MultilabelShifts for `multilabel`
        The shifts, with standard errors, diagnostics and the candidates of `auto`.
    classes_ : array of shape (n_classes,)
        Label of each column.
    n_features_in_ : int
        Number of columns.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.log([[0.8, 0.2], [0.6, 0.4], [0.9, 0.1], [0.7, 0.3]])
    >>> aligner = EnergyAligner(estimator="marginal").fit(logits, [0, 1, 0, 1])
    >>> aligner.predict(logits).tolist()
    [0, 1, 0, 1]
    """

    __metadata_request__fit: ClassVar = {"groups": True}  # metadata routing: requested by default

    def __init__(
        self,
        *,
        estimator: str = "auto",
        clusters: SharingChoice = "auto",
        target_prior: Counts | None = None,
        evidence: EvidenceKind = "training",
        tau: float = 1.0,
        classes: Sequence[Any] | None = None,
        scoring: str | Callable[..., float] = "balanced_accuracy",
        costs: npt.ArrayLike | None = None,
        minimum_recall: Mapping[Any, float] | None = None,
        minimum_precision: Mapping[Any, float] | None = None,
        multilabel: bool = False,
        ignore_index: int = IGNORE_INDEX,
    ) -> None:
        self.estimator = estimator
        self.clusters = clusters
        self.target_prior = target_prior
        self.evidence = evidence
        self.tau = tau
        self.classes = classes
        self.scoring = scoring
        self.costs = costs
        self.minimum_recall = minimum_recall
        self.minimum_precision = minimum_precision
        self.multilabel = multilabel
        self.ignore_index = ignore_index

    def fit(
        self,
        X: Array,
        y: Array | None = None,
        *,
        counts: Counts | None = None,
        sample_weight: Array | None = None,
        groups: npt.ArrayLike | None = None,
    ) -> Self:
        """Learn the shifts.

        Parameters
        ----------
        X : array of shape (n_samples, n_classes)
            Logits (NumPy, torch, pandas, ...), or log-probabilities for all estimators except ``lse``. Probabilities
            are detected and converted to logarithms. Other heads: (n,) or (n, 1) for one logit of two classes,
            (n, tokens, n_classes), (n, n_classes, height, width).
        y : array of shape (n_samples,), (n, tokens) or (n, height, width), default=None
            Labels, or one-hot rows; for `multilabel` 0 and 1 in the shape of X. With labels the sample is weighted to
            be class-balanced and `auto` can score. Without labels it counts as balanced.
        counts : array of shape (n_classes,), dict, Counter, pandas Series or DataFrame, or Dataset, default=None
            Training samples per class, matched by name if they have names; for `multilabel` samples without and with
            each label: an array (n_labels, 2), dict of pairs, or DataFrame. None uses the label counts of `y`, if they
            differ by a factor of two or more.
        sample_weight : array of shape (n_samples,), default=None
            How often each sample was observed. Only the ratios of fractional weights matter: their sum is scaled to
            the effective sample size (Σ w)² / Σ w².
        groups : array of shape (n_samples,), default=None
            Samples of one group stay together when `auto` splits the evidence.
        """
        self._shifts: Shifts | MultilabelShifts | None
        if self.multilabel:
            self._shifts = self._fit_multilabel(X, y, counts, _as_repeats(sample_weight), groups)
        else:
            rows = open_head(X, None if y is None else labels_of(y), ignore_index=self.ignore_index)
            logits, columns = as_logits(rows.logits), columns_of(X)
            self.classes_, self._names = find_columns(
                logits.shape[1], columns,
                classes=self.classes, labels=rows.labels, categories=categories_of(y), counts=counts,
            )  # fmt: skip
            evidence = Evidence.from_arrays(
                reorder(logits, columns, self._names),
                None if rows.labels is None else encode(rows.labels, self.classes_),
                repeats=rows.per_row("sample_weight", _as_repeats(sample_weight)),
                counts=counts,
                kind=self.evidence,
                class_names=self._names,
                groups=rows.groups(groups),
            )
            self._shifts = self._align(evidence)
        self.n_features_in_ = n_columns(as_array(X).shape)
        self.__dict__.pop("energy_", None)  # ends an earlier stream
        return self

    def partial_fit(
        self,
        X: Array,
        y: Array | None = None,  # noqa: ARG002
        *,
        counts: Counts | None = None,
        sample_weight: Array | None = None,
    ) -> Self:
        """Learn from a stream of blocks in constant memory. The stream must be class-balanced: labels are ignored.

        Estimators ``shrunk`` and ``marginal`` read the logits several times: they raise an error, and ``auto`` skips
        them. `counts` may be passed with any block and are kept. To weight a stream yourself, see `FreeEnergy.update`
        and `Evidence.from_free_energy`.
        """
        if self.multilabel:
            raise EnergyAlignError("partial_fit does not support multilabel=True: pass all logits to fit().")
        if hasattr(self, "energy_"):
            logits = as_logits(self._in_order(X), self.n_features_in_)
        else:
            n_classes = as_logits(X).shape[1]
            self.classes_, self._names = find_columns(n_classes, columns_of(X), classes=self.classes)
            logits = as_logits(self._in_order(X))
            self._counts = None
            self.energy_ = FreeEnergy(logits.shape[1])
            self.n_features_in_ = logits.shape[1]
        if are_probabilities(logits):
            warn_untrusted(TAKEN_AS_LOGITS)
            logits = log_probabilities(logits)
        self.energy_.update(logits, repeats=sample_weight)
        self._counts = self._counts if counts is None else counts
        self._shifts = None
        return self

    @property
    def shifts_(self) -> Shifts | MultilabelShifts:
        """The shifts; after `partial_fit` they are computed on first access."""
        if not self.__sklearn_is_fitted__():
            raise AttributeError("shifts_ is available after fit or partial_fit.")
        if self._shifts is None:
            self._shifts = self._align(
                Evidence.from_free_energy(
                    self.energy_, counts=self._counts, kind=self.evidence, class_names=self._names
                )
            )
        return self._shifts

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_shifts")

    def _align(self, evidence: Evidence) -> Shifts:
        options = {**self._fit_options(), "scoring": make_objective(self.scoring, self.classes_)}
        return fit_shifts(evidence, **options)

    def _fit_multilabel(
        self, X: Array, y: Array | None, counts: Counts | None, weights: Array | None, groups: npt.ArrayLike | None
    ) -> MultilabelShifts:
        self.classes_, self._names = find_columns(n_columns(as_array(X).shape), columns_of(X), classes=self.classes)
        evidence = MultilabelEvidence.from_arrays(
            self._in_order(X),
            None if y is None else self._in_order(y),
            repeats=weights,
            counts=counts,
            kind=self.evidence,
            class_names=self._names,
            groups=groups,
            ignore_index=self.ignore_index,
        )
        return fit_multilabel(evidence, **self._fit_options())

    def _fit_options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _FIT_OPTIONS}

    def transform(self, X: Array) -> Array:
        """Return logits plus shifts, as an array of the same type."""
        return self._fitted().apply(self._checked(X))

    def predict(self, X: Array) -> npt.NDArray[Any]:
        """Return the label of the largest aligned logit; for `multilabel` 0 or 1 for each label."""
        columns = self._fitted().predict(self._checked(X))
        if self.multilabel:
            return columns
        return np.asarray(np.take(self.classes_, columns))  # several times faster than indexing

    def predict_proba(self, X: Array) -> Array:
        """Return the softmax of the aligned logits; for `multilabel` their sigmoid."""
        return self._fitted().predict_proba(self._checked(X))

    def predict_log_proba(self, X: Array) -> Array:
        """Return the logarithm of `predict_proba`, exact even if a probability rounds to 0."""
        return self._fitted().predict_log_proba(self._checked(X))

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:  # noqa: ARG002
        """Return the name of each column of `transform`: the classes. `input_features` is ignored."""
        check_is_fitted(self)
        return np.asarray([str(name) for name in self.classes_], dtype=object)

    def __getstate__(self) -> dict[str, Any]:
        """Store the shifts as JSON, which is exact, so that loading requires trust in this type only (skops)."""
        state = dict(super().__getstate__())
        if state.get("_shifts") is not None:
            state["_shifts"] = state["_shifts"].to_json()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if isinstance(state.get("_shifts"), str):
            self._shifts = parse_shifts(state["_shifts"])

    def _fitted(self) -> Shifts | MultilabelShifts:
        check_is_fitted(self)
        return self.shifts_

    def _checked(self, X: Array) -> Array:
        shifts, logits = self._fitted(), as_array(self._in_order(X))
        one_per_class = logits.ndim == 2 and logits.shape[1] > 1
        return as_logits(logits, shifts.n_classes) if one_per_class else logits

    def _in_order(self, X: Array) -> Array:
        """Put named columns into the order of `fit`."""
        return reorder(array_of(X), columns_of(X), self._names)


def _as_repeats(weights: Array | None) -> Array | None:
    """Scale fractional weights so that their sum is the effective sample size. Keep whole numbers as they are."""
    if weights is None:
        return None
    values = np.asarray(to_numpy(weights), dtype=np.float64)
    total, squares = float(values.sum()), float(np.sum(values**2))
    if not (np.isfinite(squares) and squares > 0) or np.array_equal(values, np.rint(values)):
        return weights  # `Evidence` reports invalid ones
    return np.round(values * (total / squares), 12)  # equal weights become 1
