"""Energy aligning of logits, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from energyalign.core._io.shifts_json import dump, parse
from energyalign.core.arrays import Array, as_logits, to_numpy
from energyalign.core.errors import EnergyAlignError, some_of
from energyalign.core.evidence import Evidence, EvidenceKind
from energyalign.core.fitting import fit_shifts
from energyalign.core.free_energy import FreeEnergy
from energyalign.core.sharing import SharingChoice
from energyalign.core.shifts import Shifts


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
    target_prior : array of shape (n_classes,), optional
        The label distribution to predict for; uniform if not given.
    evidence : {"training", "out-of-fold", "held-out"}, default="training"
        Whether the model behind the logits was trained on these very samples. `auto` needs to know: on
        ``training`` samples a model is right about nearly everything, so accuracy there says nothing.
    tau : float, default=1.0
        Scale of estimator ``prior``.
    classes : array of shape (n_classes,), optional
        The label of each column. Not needed for labels 0..n_classes-1, nor when every class has a label in `y`.

    Attributes
    ----------
    shifts_ : Shifts
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
        target_prior: npt.ArrayLike | None = None,
        evidence: EvidenceKind = "training",
        tau: float = 1.0,
        classes: Sequence[Any] | None = None,
    ) -> None:
        self.estimator = estimator
        self.clusters = clusters
        self.target_prior = target_prior
        self.evidence = evidence
        self.tau = tau
        self.classes = classes

    def fit(
        self,
        X: Array,
        y: Array | None = None,
        *,
        counts: npt.ArrayLike | None = None,
        sample_weight: Array | None = None,
        groups: npt.ArrayLike | None = None,
    ) -> Self:
        """Learn the shifts.

        Parameters
        ----------
        X : array of shape (n_samples, n_classes)
            Logits (NumPy, torch, ...), or log-probabilities for all estimators but ``lse``.
        y : array of shape (n_samples,), optional
            Labels. With them the sample is weighted to be class-balanced and `auto` can score; without
            them it is taken to be balanced.
        counts : array of shape (n_classes,), optional
            Training samples per class. If not given, the numbers of labels stand in for them if they
            differ by a factor of two or more.
        sample_weight : array of shape (n_samples,), optional
            How often each sample was observed.
        groups : array of shape (n_samples,), optional
            Samples that `auto` must not separate when it splits the evidence.
        """
        logits = as_logits(_as_matrix(X))
        self.classes_ = self._find_classes(logits.shape[1], y)
        evidence = Evidence.from_arrays(
            logits,
            None if y is None else _encode(y, self.classes_),
            repeats=sample_weight,
            counts=counts,
            kind=self.evidence,
            class_names=[str(name) for name in self.classes_],
            groups=groups,
        )
        self._shifts: Shifts | None = self._align(evidence)
        self.n_features_in_ = logits.shape[1]
        self.__dict__.pop("energy_", None)  # a stream that came before is over
        return self

    def partial_fit(
        self,
        X: Array,
        y: Array | None = None,  # noqa: ARG002
        *,
        counts: npt.ArrayLike | None = None,
        sample_weight: Array | None = None,
    ) -> Self:
        """Learn from a stream of blocks of a class-balanced sample, in memory that does not grow with it.

        Estimators ``shrunk`` and ``marginal`` need logits that can be read again and are refused, and ``auto``
        leaves them out. Labels are ignored: what the stream has seen cannot be weighted again, so it must be balanced.
        `counts` may come with any block and are remembered. To weight a stream yourself, see
        `FreeEnergy.update` and `Evidence.from_free_energy`.
        """
        logits = as_logits(_as_matrix(X))
        if not hasattr(self, "energy_"):
            self._counts = None
            self.energy_ = FreeEnergy(logits.shape[1])
            self.classes_ = self._find_classes(logits.shape[1], None)
            self.n_features_in_ = logits.shape[1]
        self.energy_.update(logits, repeats=sample_weight)
        self._counts = self._counts if counts is None else counts
        self._shifts = None
        return self

    @property
    def shifts_(self) -> Shifts:
        """The result; after `partial_fit` it is worked out when first asked for."""
        if not self.__sklearn_is_fitted__():
            raise AttributeError("shifts_ is there after fit or partial_fit.")
        if self._shifts is None:
            names = [str(name) for name in self.classes_]
            self._shifts = self._align(
                Evidence.from_free_energy(self.energy_, counts=self._counts, kind=self.evidence, class_names=names)
            )
        return self._shifts

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_shifts")

    def _align(self, evidence: Evidence) -> Shifts:
        return fit_shifts(
            evidence,
            estimator=self.estimator,
            clusters=self.clusters,
            target_prior=self.target_prior,
            tau=self.tau,
        )

    def transform(self, X: Array) -> Array:
        """Logits plus shifts, as an array of the same kind."""
        return self._fitted().apply(self._checked(X))

    def predict(self, X: Array) -> npt.NDArray[Any]:
        """The label of the largest corrected logit."""
        columns = self._fitted().predict(self._checked(X))
        return np.asarray(np.take(self.classes_, columns))  # several times as fast as an index

    def predict_proba(self, X: Array) -> Array:
        """Softmax of the corrected logits."""
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
            state["_shifts"] = dump(state["_shifts"])
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if isinstance(state.get("_shifts"), str):
            self._shifts = parse(state["_shifts"])

    def _fitted(self) -> Shifts:
        check_is_fitted(self)
        return self.shifts_

    def _checked(self, X: Array) -> Array:
        return as_logits(_as_matrix(X), self._fitted().n_classes)

    def _find_classes(self, n_classes: int, y: Array | None) -> npt.NDArray[Any]:
        if self.classes is not None:
            classes = np.asarray(self.classes)
            if classes.shape != (n_classes,):
                raise EnergyAlignError(f"classes has shape {classes.shape}, but the logits have {n_classes} columns.")
            if len(np.unique(classes)) < n_classes:
                raise EnergyAlignError("classes names a label twice: each column needs one of its own.")
            return classes
        if y is None:
            return np.arange(n_classes)
        seen = np.unique(to_numpy(y))
        if np.issubdtype(seen.dtype, np.integer) and len(seen) < n_classes:
            return np.arange(n_classes)
        if len(seen) != n_classes:
            raise EnergyAlignError(
                f"y has {len(seen)} distinct labels and the logits have {n_classes} columns: "
                "say which label each column stands for with classes=[...]."
            )
        return seen


def _as_matrix(X: Array) -> Array:
    """A pandas frame or anything else that is like an array as NumPy; arrays of any namespace as they are."""
    if hasattr(X, "to_numpy"):
        return X.to_numpy()
    return X if hasattr(X, "dtype") else np.asarray(X)


def _encode(y: Array, classes: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The column of each label."""
    labels = to_numpy(y)
    order = np.argsort(classes)
    place = np.clip(np.searchsorted(classes, labels, sorter=order), 0, len(classes) - 1)
    columns = order[place]
    unknown = classes[columns] != labels
    if np.any(unknown):
        names = np.unique(labels[unknown]).tolist()
        raise EnergyAlignError(f"y has labels that no column stands for: {some_of(names)}.")
    return np.asarray(columns, dtype=np.int64)
