"""Base class of the callbacks that align a model when training ends."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import fmean
from typing import Any, Unpack, get_args

import numpy as np
import torch

from energyalign.core._io.terminal import clean
from energyalign.core.before_after import BeforeAfter, before_and_after
from energyalign.core.errors import EnergyAlignError
from energyalign.core.estimators import make_estimator
from energyalign.core.evidence import Evidence, EvidenceKind
from energyalign.core.heads import IGNORE_INDEX
from energyalign.core.multilabel import MultilabelEvidence, MultilabelShifts, fit_head
from energyalign.core.names import Counts
from energyalign.core.objectives import Aims, make_objective, score_name, show_score
from energyalign.core.sharing import SharingChoice
from energyalign.core.shifts import Shifts
from energyalign.pytorch.collect import collect_evidence
from energyalign.pytorch.fold import AnyShifts, fold_or_wrap
from energyalign.pytorch.inference import plain_network
from energyalign.pytorch.label_counts import LabelCounter


class AfterTraining:
    """Callback base class: aligns a model in place and measures it before and after.

    If that fails, a warning says why, and the model is unchanged.

    Parameters
    ----------
    loader : iterable of batches, Dataset, or tuple of two arrays, default=None
        The evidence, preprocessed for the network. By default the trainer's validation data, or its training data if
        there is none.
    evidence : {"training", "out-of-fold", "held-out"}, default=None
        Whether the model was trained on the samples of `loader`; required with `loader`.
    counts : array of shape (n_classes,), dict, Counter, pandas Series or DataFrame, or Dataset with `targets`, \
default=None
        Training samples per class; by default the labels of the training data are counted if possible.
    estimator, clusters, target_prior, head, class_names, tau, multilabel, ignore_index, scoring, costs, minimum_recall,
    minimum_precision
        As for `energyalign.pytorch.align`.

    Attributes
    ----------
    shifts_ : Shifts, or MultilabelShifts for `multilabel`
        Shifts that were added to the logits. All attributes exist only if a training has ended with an aligned model.
    aligned_ : torch.nn.Module
        The trainer's own model; or, if folding is impossible, an `AlignedModel` around it, and the trainer's own model
        is unchanged (a warning and the report say so).
    metrics_ : dict of str to float
        ``accuracy_before``, ``accuracy_after``, ``balanced_accuracy_before``, ...: cross-fitted on the evidence; means
        over independent labels. With `scoring`, `costs` or minima, the score of that objective. Empty if it could not
        be measured; the report says why.
    """

    shifts_: AnyShifts
    aligned_: torch.nn.Module
    metrics_: dict[str, float]

    def __init__(
        self,
        loader: Iterable[Any] | None = None,
        *,
        evidence: EvidenceKind | None = None,
        counts: Counts | None = None,
        estimator: str = "auto",
        clusters: SharingChoice = "auto",
        target_prior: Counts | None = None,
        head: str | None = None,
        class_names: Sequence[str] | None = None,
        tau: float = 1.0,
        multilabel: bool = False,
        ignore_index: int = IGNORE_INDEX,
        **aims: Unpack[Aims],
    ) -> None:
        super().__init__()
        if (loader is None) != (evidence is None):
            raise EnergyAlignError(
                "give loader= and evidence= together: evidence= says whether the model was trained on the samples of "
                "the loader ('training') or not ('held-out')."
            )
        # Raise now, not after hours of training.
        if unknown := sorted(set(aims) - set(Aims.__annotations__)):
            known = ", ".join(sorted(Aims.__annotations__))
            raise TypeError(f"unknown options: {', '.join(unknown)}. Besides its own, the callback takes {known}.")
        make_objective(aims.get("scoring", "balanced_accuracy"))
        if estimator != "auto":
            make_estimator(estimator, tau=tau)
        if evidence is not None and evidence not in get_args(EvidenceKind):
            raise EnergyAlignError(f"evidence must be one of {', '.join(get_args(EvidenceKind))}, got {evidence!r}.")
        self.loader, self.evidence, self.counts = loader, evidence, counts
        self.estimator, self.clusters, self.target_prior, self.tau = estimator, clusters, target_prior, tau
        self.head, self.class_names, self.aims = head, class_names, aims
        self.multilabel, self.ignore_index = multilabel, ignore_index
        self._notes: list[str] = []

    def forget_earlier_run(self, model: torch.nn.Module) -> None:
        """Reset the results of an earlier training."""
        for name in ("shifts_", "aligned_", "metrics_"):
            self.__dict__.pop(name, None)
        # An aligned model may be trained further: new shifts are fitted to the bias that remains. Without this, the
        # model would be refused as already aligned.
        if hasattr(plain_network(model), "shifts_"):
            del plain_network(model).shifts_

    def align_or_warn(
        self,
        model: torch.nn.Module,
        held_out: Iterable[Any] | None,
        training: Iterable[Any] | None,
        count: Callable[[], LabelCounter],
    ) -> bool:
        """Align the model; if that fails, warn: hours of training must not end in a traceback.

        Parameters
        ----------
        model : torch.nn.Module
        held_out, training : iterable of batches or None
            The trainer's data, in order of preference; not used if the user gave a loader.
        count : callable
            Returns a counter of the training labels; called only if the user gave no counts.

        Returns
        -------
        bool
            Whether the model was aligned, and `shifts_`, `aligned_` and `metrics_` exist.
        """
        with warning_instead_of_error("the model was NOT aligned and is unchanged"):
            self._align_in_place(model, *self._source(held_out, training), count)
            return True
        return False

    def report(self) -> str:
        """Return a summary of a few lines."""
        if not hasattr(self, "shifts_"):
            return "energyalign: the model was not aligned."
        values = self.shifts_.values
        shifts = self.shifts_ if isinstance(self.shifts_, Shifts) else self.shifts_.labels[0]
        how = f"{shifts.estimator} ({shifts.clusters.name})" if shifts is self.shifts_ else f"{len(values)} labels"
        lines = [
            f"{how} on {shifts.n_samples:,.0f} {shifts.evidence_kind} samples; "
            f"shifts from {np.min(values):+.2f} to {np.max(values):+.2f}."
        ]
        if self.metrics_:
            pairs = [
                f"{score_name(name).replace('_', ' ')} {show_score(name, self.metrics_[f'{name}_before'])} -> "
                f"{show_score(name, self.metrics_[f'{name}_after'])}"
                for name in (key.removesuffix("_after") for key in self.metrics_ if key.endswith("_after"))
            ]
            too_high = ", too high: the model was trained on them" if shifts.evidence_kind == "training" else ""
            lines.append(f"{', '.join(pairs)} (cross-fitted on these samples{too_high}).")
        return clean("\n".join(f"energyalign: {line}" for line in lines + self._notes))

    def numbers_to_log(self, prefix: str) -> dict[str, float]:
        """Return the metrics, and whether the trainer's own model is aligned (``folded``)."""
        folded = 0.0 if self._is_wrapped else 1.0
        return {f"{prefix}{name}": value for name, value in (self.metrics_ | {"folded": folded}).items()}

    def new_counter(self) -> LabelCounter:
        """Return an empty counter for the labels of the model."""
        return LabelCounter(multilabel=self.multilabel, ignore_index=self.ignore_index)

    def _align_in_place(
        self, model: torch.nn.Module, loader: Iterable[Any], kind: EvidenceKind, count: Callable[[], LabelCounter]
    ) -> None:
        if hasattr(plain_network(model), "shifts_"):
            raise EnergyAlignError("the model is already aligned: is there another EnergyAlignCallback in the list?")
        notes = []
        evidence, probe = collect_evidence(
            model, loader, counts=self.counts, kind=kind, class_names=self.class_names,
            multilabel=self.multilabel, ignore_index=self.ignore_index,
        )  # fmt: skip
        if self.counts is None:
            counted = count().counts(evidence.n_classes)
            if counted is None:
                notes.append("the training counts are unknown: give counts=... if you know them.")
            else:
                evidence = evidence.with_counts(counted)
        shifts = fit_head(
            evidence, estimator=self.estimator, clusters=self.clusters, target_prior=self.target_prior, tau=self.tau,
            **self.aims,
        )  # fmt: skip
        aligned = fold_or_wrap(model, shifts, probe, head=self.head)
        plain_network(aligned).shifts_ = shifts
        # Last, because a failure to measure must not undo the alignment.
        metrics, problem = _measure(evidence, shifts, aimed=bool(self.aims))
        if problem is not None:
            notes.append(f"accuracy was not measured: {problem}.")
        if aligned is not model:
            notes.append("the shifts could not be folded: the trainer's own model is unchanged; use callback.aligned_.")
        self.shifts_, self.aligned_, self.metrics_ = shifts, aligned, metrics
        self._notes, self._is_wrapped = notes, aligned is not model

    def _source(
        self, held_out: Iterable[Any] | None, training: Iterable[Any] | None
    ) -> tuple[Iterable[Any], EvidenceKind]:
        if self.loader is not None and self.evidence is not None:
            return self.loader, self.evidence
        if held_out is not None:
            return held_out, "held-out"
        if training is not None:
            return training, "training"
        raise EnergyAlignError("the trainer has neither validation nor training data: give loader= and evidence=.")


@contextlib.contextmanager
def warning_instead_of_error(consequence: str) -> Iterator[None]:
    """Turn any error inside into a warning with the consequence and the reason."""
    try:
        yield
    except Exception as error:
        warnings.warn(f"{consequence}: {_describe(error)}", stacklevel=4)


def _measure(
    evidence: Evidence | MultilabelEvidence, shifts: AnyShifts, *, aimed: bool
) -> tuple[dict[str, float], str | None]:
    """Return cross-fitted metrics and None, or an empty dict and the reason.

    Metrics are accuracies, or the score of another objective; for independent labels, means over the labels.
    """
    if isinstance(evidence, MultilabelEvidence) and isinstance(shifts, MultilabelShifts):
        each = [_measure(*pair, aimed=aimed) for pair in zip(evidence.labels, shifts.labels, strict=True)]
        problem = next((problem for _, problem in each if problem is not None), None)
        return {} if problem else {name: fmean(metrics[name] for metrics, _ in each) for name in each[0][0]}, problem
    assert isinstance(evidence, Evidence)
    assert isinstance(shifts, Shifts)
    if evidence.labels is None:
        return {}, "the evidence has no labels"
    if aimed:
        return _cross_fitted_score(shifts)
    try:
        metrics = _as_metrics(before_and_after(evidence, shifts))
    except Exception as error:
        return {}, _describe(error)
    if not all(map(math.isfinite, metrics.values())):
        return {}, "no class has two samples, one to fit and one to score"
    return metrics, None


def _cross_fitted_score(shifts: Shifts) -> tuple[dict[str, float], str | None]:
    selection = shifts.selection
    if selection is None or selection.gain is None:
        return {}, "no class has two samples that were not used in training, one to fit and one to score"
    after = selection.candidates[selection.chosen].score or 0.0
    return {f"{shifts.scoring}_before": after - selection.gain, f"{shifts.scoring}_after": after}, None


def _as_metrics(scores: BeforeAfter) -> dict[str, float]:
    return {
        f"{name}_{when}": float(getattr(score, name))
        for name in ("accuracy", "balanced_accuracy")
        for when, score in zip(("before", "after"), scores, strict=True)
    }


def _describe(error: Exception) -> str:
    """Return the message, with the type of the error unless it is an `EnergyAlignError`."""
    return str(error) if isinstance(error, EnergyAlignError) else f"{type(error).__name__}: {error}"
