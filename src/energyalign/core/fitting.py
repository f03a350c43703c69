"""Fit shifts on evidence: the entry point of all interfaces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from energyalign.core._engine.threads import linear_algebra_in_one_thread
from energyalign.core.checks import check_target_prior
from energyalign.core.errors import BadValueError, warn_untrusted
from energyalign.core.evidence import Evidence
from energyalign.core.names import table_by_class
from energyalign.core.objectives import Constraints, Costs, Objective, make_objective
from energyalign.core.selection.auto import select
from energyalign.core.selection.samples import Aim
from energyalign.core.sharing import SharingChoice
from energyalign.core.shifts import Shifts
from energyalign.core.trust import concerns


def fit_shifts(
    evidence: Evidence,
    *,
    estimator: str = "auto",
    clusters: SharingChoice = "auto",
    target_prior: npt.ArrayLike | None = None,
    tau: float = 1.0,
    scoring: str | Callable[..., float] | Objective = "balanced_accuracy",
    costs: npt.ArrayLike | None = None,
    minimum_recall: Mapping[Any, float] | None = None,
    minimum_precision: Mapping[Any, float] | None = None,
) -> Shifts:
    """Estimate the shifts that remove the class-imbalance bias of a model.

    Parameters
    ----------
    evidence : Evidence
        Logits on a class-balanced sample, or on a labelled sample, which is weighted to be balanced.
    estimator : str, default="auto"
        A name in `energyalign.core.estimators.ESTIMATORS`, or ``auto``: the first of ``shrunk``, ``marginal``, ``lse``
        and ``prior`` that applies, with the strength that scores best on samples that the model has not seen, down to
        the raw model.
    clusters : "auto", "per-class", "monotone", "jenks", int, sequence of int, or Clusters, default="auto"
        Which classes share a shift. A number is the number of Jenks clusters of the training counts; ``jenks`` chooses
        the number that scores best, as in the paper.
    target_prior : array of shape (n_classes,), dict or pandas Series, optional
        The label distribution to predict for, default=uniform.
    tau : float, default=1.0
        Scale of estimator ``prior``.
    scoring : str or callable, default="balanced_accuracy"
        The objective to maximise: a name in `energyalign.core.objectives.METRICS`, a scikit-learn scorer of labels or
        its name, or a function ``(y_true, y_pred[, sample_weight])``. Scores other than balanced accuracy are computed
        under the class frequencies of the evidence, or of `target_prior` if given.
    costs : array of shape (n_classes, n_classes) or pandas DataFrame, optional
        ``costs[k, j]`` is the cost of predicting j for a sample of class k. The expected cost is minimised, instead of
        maximising `scoring`. A data frame is matched by the names of its rows and columns.
    minimum_recall, minimum_precision : dict of class to number, optional
        Minimum recall and precision by class name, or number if classes have no names. The fit raises an error if it
        cannot meet them.

    Returns
    -------
    Shifts

    Warns
    -----
    UntrustedEstimateWarning
        If diagnostics cast doubt on the estimate.
    """
    target = check_target_prior(target_prior, evidence.n_classes, evidence.class_names)
    names = evidence.names_of(range(evidence.n_classes))
    objective = make_objective(scoring)
    if costs is not None:
        if objective.name != "balanced_accuracy":
            raise BadValueError("give either scoring= or costs=, not both.")
        objective = Costs.make(table_by_class(costs, names, source="costs", square=True), evidence.n_classes)
    balanced = objective.name == "balanced_accuracy"
    aim = Aim(
        objective,
        Constraints.make(minimum_recall, minimum_precision, names),
        target,
        target if balanced or target_prior is not None else None,
        objective.of_classes if isinstance(objective, Costs) else np.ones(evidence.n_classes),
    )
    with linear_algebra_in_one_thread():
        result, selection = select(evidence, estimator, clusters, tau, aim)
    found = tuple(concerns(evidence, result, selection, aim))
    for concern in found:
        warn_untrusted(concern)
    return Shifts(
        values=result.shifts + (np.log(target * evidence.n_classes) if balanced else 0.0),
        standard_errors=result.standard_errors,
        clusters=result.clusters,
        target_prior=target,
        estimator=result.estimator.name,
        tau=tau,
        strength=result.strength,
        energies=evidence.free_energy.values,
        effective_samples=evidence.free_energy.effective_samples,
        counts=evidence.counts,
        class_names=evidence.class_names,
        evidence_kind=evidence.kind,
        from_probabilities=evidence.holds_probabilities,
        n_samples=evidence.free_energy.n_samples,
        scoring=objective.name,
        selection=selection,
        concerns=found,
    )
