"""One seed of the demo: train a network on a long tail, align it in several ways, measure each."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from threadpoolctl import threadpool_limits

from energyalign.core.errors import UntrustedEstimateWarning
from energyalign.core.evidence import Evidence
from energyalign.core.fitting import fit_shifts
from energyalign.core.free_energy import FreeEnergy
from energyalign.core.metrics import ClassScores
from energyalign.core.shifts import Shifts
from energyalign.demo.digits import LongTail
from energyalign.demo.network import Network

N_FOLDS = 5

# row of the table -> estimator and how classes share a shift; the paper's own is `lse` on Jenks clusters
METHODS = {
    "raw": ("none", "per-class"),
    "logit adjustment": ("prior", "per-class"),
    "energy aligning, lse (paper)": ("lse", "jenks"),
    "energy aligning, marginal": ("marginal", "auto"),
    "energy aligning, auto": ("auto", "auto"),
}


def run_seed(data: LongTail, seed: int) -> list[dict[str, Any]]:
    """A result row for each method, all from one trained network."""
    evidence_logits, groups, logits = _train(data, seed)
    rows = []
    for method, (estimator, clusters) in METHODS.items():
        evidence = Evidence.from_arrays(
            evidence_logits, data.train_labels, counts=data.counts, kind="out-of-fold", groups=groups
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UntrustedEstimateWarning)  # kept in the row as concerns
            shifts = fit_shifts(evidence, estimator=estimator, clusters=clusters)
        rows.append(_row(data, seed, method, shifts, logits))
    return rows


def _train(data: LongTail, seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
    """Out-of-fold logits of the training images with their folds, and logits of the held-out images."""
    network = Network((128,), alpha=1.0, learning_rate_init=5e-3, max_iter=150, random_state=seed)
    folds = StratifiedKFold(N_FOLDS)
    # One thread: matrices this small gain nothing from more, and threads would fight over a busy machine.
    with warnings.catch_warnings(), threadpool_limits(1):
        # The number of epochs is the budget, not a failure to converge; and the tail has fewer images than there
        # are folds, which is what a tail is: every fold still trains on at least one.
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
        splits = list(folds.split(data.train_images, data.train_labels))
        out_of_fold = cross_val_predict(
            network, data.train_images, data.train_labels, cv=splits, method="decision_function"
        )
        logits = network.fit(data.train_images, data.train_labels).decision_function(data.test_images)
    groups = np.empty(len(data.train_labels), dtype=np.int64)
    for fold, (_, scored) in enumerate(splits):
        groups[scored] = fold
    return out_of_fold, groups, logits


def _row(data: LongTail, seed: int, method: str, shifts: Shifts, logits: NDArray[np.float64]) -> dict[str, Any]:
    corrected = shifts.apply(logits)
    scores = ClassScores(len(data.counts)).update(corrected, data.test_labels)
    return {
        "method": method,
        "seed": seed,
        "manifest": data.manifest["sha256"],
        "estimator": shifts.estimator,
        "sharing": shifts.clusters.name,
        "overall": scores.accuracy,
        **scores.groups(data.counts),
        "per_class": scores.per_class.tolist(),
        "shifts": shifts.values.tolist(),
        "shift_standard_errors": shifts.standard_errors.tolist(),
        "test_energies": FreeEnergy().update(corrected).values.tolist(),
        "concerns": list(shifts.concerns),
    }
