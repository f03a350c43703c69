"""Energy aligning of logits, as a scikit-learn estimator."""

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
from energyalign.core.objectives import make_objective
from energyalign.core.probabilities import TAKEN_AS_LOGITS, are_probabilities, log_probabilities
from energyalign.core.sharing import SharingChoice
from energyalign.core.shifts import Shifts
from energyalign.sklearn.columns import categories_of, encode, find_columns, in_order, labels_of


class EnergyAligner(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Learn one shift per class from logits and add it to logits.

    Parameters
    ----------
    estimator : str, default="auto"
        How class energies are measured: a name of `energyalign.core.estimators.ESTIMATORS`, or ``auto``: the first
        of ``shrunk``, ``marginal``, ``lse`` and ``prior`` that applies, scaled by what pays on samples that the model
        has not seen, down to the raw model.
    clusters : "auto", "per-class", "monotone", "jenks", int, sequence of int, or Clusters, default="auto"
        Which classes share a shift; a number means so many Jenks clusters of the training counts, and ``jenks``
        the number of them that scores best, as in the paper.
    target_prior : array of shape (n_classes,), dict or pandas Series, optional
        The label distribution to predict for; uniform if not given.
    evidence : {"training", "out-of-fold", "held-out"}, default="training"
        Whether the model behind the logits was trained on these very samples. `auto` needs to know: on
        ``training`` samples a model is right about nearly everything, so accuracy there says nothing.
    tau : float, default=1.0
        Scale of estimator ``prior``.
    classes : array of shape (n_classes,), optional
        The label of each column. Not needed for labels 0..n_classes-1, nor when every class has a label in `y`: then
        the columns are taken to be in sorted order, or in that of the categories of a pandas Categorical. The columns
        of a data frame name themselves; with `classes` too, they are put into its order.
    scoring : str or callable, default="balanced_accuracy"
        What the predictions should be best at: ``balanced_accuracy``, ``accuracy``, ``f1`` (of the second of two
        classes), ``f1_macro``, ``f1_weighted``, ``jaccard_macro``, ``matthews_corrcoef``, ``geometric_mean``, any
        scikit-learn scorer of labels, or a function ``(y_true, y_pred[, sample_weight])``. Needs labels, and
        out-of-fold or held-out evidence.
    costs : array of shape (n_classes, n_classes) or pandas DataFrame, optional
        ``costs[k, j]`` is what it costs to predict class j for a sample of class k; replaces `scoring`. A data frame is
        matched by the names of its rows and columns.
    minimum_recall, minimum_precision : dict of class to number, optional
        What must be reached on the evidence, e.g. ``{"fraud": 0.8}``. What cannot be reached is refused.
    multilabel : bool, default=False
        Whether columns are independent labels, each with a sigmoid of its own.
    ignore_index : int, default=-100
        Label of what is left out: the padding of a sequence, the border of a mask, a label that is not known.

    Attributes
    ----------
    shifts_ : Shifts, or MultilabelShifts for `multilabel`
        The result, with standard errors, diagnostics and what `auto` compared.
    classes_ : array of shape (n_classes,)
        The label of each column.
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

    __metadata_request__fit: ClassVar = {"groups": True}  # scikit-learn's metadata routing: asked for by default

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
            Logits (NumPy, torch, pandas, ...), or log-probabilities for all estimators but ``lse``. Probabilities
            are recognised, and their logarithm is taken. Other heads: (n,) or (n, 1) for one logit of two classes,
            (n, tokens, n_classes), (n, n_classes, height, width).
        y : array of shape (n_samples,), (n, tokens) or (n, height, width), optional
            Labels, or one-hot rows; for `multilabel` 0 and 1 in the shape of X. With them the sample is weighted to be
            class-balanced and `auto` can score; without them it is taken to be balanced.
        counts : array of shape (n_classes,), dict, Counter, pandas Series or DataFrame, or Dataset, optional
            Training samples per class, by name wherever they have names; for `multilabel` samples without and with each
            label: an array (n_labels, 2), dict of pairs, or DataFrame. If not given, the numbers of labels stand in for
            them if they differ by a factor of two or more.
        sample_weight : array of shape (n_samples,), optional
            How often each sample was observed. Of weights that are not whole numbers only the ratios matter: in sum
            they count as (Σ w)² / Σ w² samples.
        groups : array of shape (n_samples,), optional
            Samples that `auto` must not separate when it splits the evidence.
        """
        self._shifts: Shifts | MultilabelShifts | None
        if self.multilabel:
            self._shifts = self._fit_labels(X, y, counts, _as_repeats(sample_weight), groups)
        else:
            rows = open_head(X, None if y is None else labels_of(y), ignore_index=self.ignore_index)
            logits, columns = as_logits(rows.logits), columns_of(X)
            self.classes_, self._names = find_columns(
                logits.shape[1], columns,
                classes=self.classes, labels=rows.labels, categories=categories_of(y), counts=counts,
            )  # fmt: skip
            evidence = Evidence.from_arrays(
                in_order(logits, columns, self._names),
                None if rows.labels is None else encode(rows.labels, self.classes_),
                repeats=rows.per_row("sample_weight", _as_repeats(sample_weight)),
                counts=counts,
                kind=self.evidence,
                class_names=self._names,
                groups=rows.groups(groups),
            )
            self._shifts = self._align(evidence)
        self.n_features_in_ = n_columns(as_array(X).shape)
        self.__dict__.pop("energy_", None)  # a stream that came before is over
        return self

    def partial_fit(
        self,
        X: Array,
        y: Array | None = None,  # noqa: ARG002
        *,
        counts: Counts | None = None,
        sample_weight: Array | None = None,
    ) -> Self:
        """Learn from a stream of blocks of a class-balanced sample, in memory that does not grow with it.

        Estimators ``shrunk`` and ``marginal`` need logits that can be read again and are refused, and ``auto``
        leaves them out. Labels are ignored: what the stream has seen cannot be weighted again, so it must be balanced.
        `counts` may come with any block and are remembered. To weight a stream yourself, see
        `FreeEnergy.update` and `Evidence.from_free_energy`.
        """
        if self.multilabel:
            raise EnergyAlignError("independent labels are not learnt from a stream: give fit() all logits at once.")
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
        """The result; after `partial_fit` it is worked out when first asked for."""
        if not self.__sklearn_is_fitted__():
            raise AttributeError("shifts_ is there after fit or partial_fit.")
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
        return fit_shifts(evidence, **self._options() | {"scoring": make_objective(self.scoring, self.classes_)})

    def _fit_labels(
        self, X: Array, y: Array | None, counts: Counts | None, weights: Array | None, groups: npt.ArrayLike | None
    ) -> MultilabelShifts:
        shape = as_array(X).shape
        self.classes_, self._names = find_columns(n_columns(shape), columns_of(X), classes=self.classes)
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
        return fit_multilabel(evidence, **self._options())

    def _options(self) -> dict[str, Any]:
        return {
            "estimator": self.estimator,
            "clusters": self.clusters,
            "target_prior": self.target_prior,
            "tau": self.tau,
            "scoring": self.scoring,
            "costs": self.costs,
            "minimum_recall": self.minimum_recall,
            "minimum_precision": self.minimum_precision,
        }

    def transform(self, X: Array) -> Array:
        """Logits plus shifts, as an array of the same kind."""
        return self._fitted().apply(self._checked(X))

    def predict(self, X: Array) -> npt.NDArray[Any]:
        """The label of the largest corrected logit; for `multilabel` 0 or 1 for each label."""
        columns = self._fitted().predict(self._checked(X))
        if self.multilabel:
            return columns
        return np.asarray(np.take(self.classes_, columns))  # several times as fast as an index

    def predict_proba(self, X: Array) -> Array:
        """Softmax of the corrected logits; for `multilabel` their sigmoid."""
        return self._fitted().predict_proba(self._checked(X))

    def predict_log_proba(self, X: Array) -> Array:
        """Logarithm of `predict_proba`, exact also where a probability rounds to 0."""
        return self._fitted().predict_log_proba(self._checked(X))

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:  # noqa: ARG002
        """The names of the classes, one for each column of `transform`; `input_features` is not looked at."""
        check_is_fitted(self)
        return np.asarray([str(name) for name in self.classes_], dtype=object)

    def __getstate__(self) -> dict[str, Any]:
        """Shifts as their JSON, which keeps every number: no type but this one has to be trusted by who loads it."""
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
        """Return the columns in the order of `fit`, if they have names."""
        return in_order(array_of(X), columns_of(X), self._names)


def _as_repeats(weights: Array | None) -> Array | None:
    """Relative weights as numbers of observations: in sum the effective number of samples. Whole numbers are such."""
    if weights is None:
        return None
    values = np.asarray(to_numpy(weights), dtype=np.float64)
    total, squares = float(values.sum()), float(np.sum(values**2))
    if not (np.isfinite(squares) and squares > 0) or np.array_equal(values, np.rint(values)):
        return weights  # what is wrong with them is said where they are checked
    return np.round(values * (total / squares), 12)  # equal weights are 1 in any unit
