"""Aligning a model where its training ends: what the trainers' callbacks have in common."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import fmean
from typing import Any, Unpack, get_args

import numpy as np
import torch

from energyalign.core.before_after import BeforeAfter, before_and_after
from energyalign.core.errors import EnergyAlignError
from energyalign.core.estimators import make_estimator
from energyalign.core.evidence import Evidence, EvidenceKind
from energyalign.core.heads import IGNORE_INDEX
from energyalign.core.multilabel import MultilabelEvidence, MultilabelShifts, fit_head
from energyalign.core.names import Counts
from energyalign.core.objectives import Aims, make_objective
from energyalign.core.sharing import SharingChoice
from energyalign.core.shifts import Shifts
from energyalign.pytorch.collect import collect_evidence
from energyalign.pytorch.fold import AnyShifts, fold_or_wrap
from energyalign.pytorch.inference import plain_network
from energyalign.pytorch.label_counts import LabelCounter


class AfterTraining:
    """Aligns a model in place and measures it before and after.

    If that fails, a warning says why and the model is as training left it.

    Parameters
    ----------
    loader : iterable of batches, Dataset, or tuple of two arrays, optional
        The evidence, as the network takes it. By default the trainer's validation data, or its training data if it
        has no other.
    evidence : {"training", "out-of-fold", "held-out"}, optional
        Whether the model was trained on what `loader` yields; needed with `loader`, and known otherwise.
    counts : array of shape (n_classes,), dict, Counter, pandas Series or DataFrame, or Dataset with `targets`, optional
        Training samples per class; by default the labels of the training data are counted where that is possible.
    estimator, clusters, target_prior, head, class_names, tau, multilabel, ignore_index, scoring, costs, minimum_recall,
    minimum_precision
        As for `energyalign.pytorch.align`.

    Attributes
    ----------
    shifts_ : Shifts, or MultilabelShifts for `multilabel`
        What was added to the logits. This and the other attributes exist only after a training that ended aligned.
    aligned_ : torch.nn.Module
        The trainer's own model; or, where folding is impossible, an `AlignedModel` around it, and the trainer's own
        model is unchanged (a warning and the report say so).
    metrics_ : dict of str to float
        ``accuracy_before``, ``accuracy_after``, ``balanced_accuracy_before``, ...: on the evidence, every sample
        corrected by shifts from the others; means over independent labels. With `scoring`, `costs` or minima it is
        that score instead. Empty if that could not be measured; the report says why.
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
                "give loader= and evidence= together: only you know whether the model was trained on what it yields "
                "('training') or not ('held-out')."
            )
        # What can be known to be wrong is refused now, not after hours of training.
        if unknown := sorted(set(aims) - set(Aims.__annotations__)):
            raise TypeError(f"unknown options: {', '.join(unknown)}.")
        make_objective(aims.get("scoring", "balanced_accuracy"))
        if estimator != "auto":
            make_estimator(estimator, tau=tau)
        if evidence is not None and evidence not in get_args(EvidenceKind):
            raise EnergyAlignError(
                f"unknown kind of evidence {evidence!r}: choose {', '.join(get_args(EvidenceKind))}."
            )
        self.loader, self.evidence, self.counts = loader, evidence, counts
        self.estimator, self.clusters, self.target_prior, self.tau = estimator, clusters, target_prior, tau
        self.head, self.class_names, self.aims = head, class_names, aims
        self.multilabel, self.ignore_index = multilabel, ignore_index
        self._notes: list[str] = []

    def forget_earlier_run(self, model: torch.nn.Module) -> None:
        """Before training: what an earlier run found is not what this one will find."""
        for name in ("shifts_", "aligned_", "metrics_"):
            self.__dict__.pop(name, None)
        # Training on from an aligned model is legitimate: its bias starts elsewhere, and the shifts to come are
        # measured on the bias that training leaves. The mark of the earlier ones would only make us refuse.
        if hasattr(plain_network(model), "shifts_"):
            del plain_network(model).shifts_

    def align_or_warn(
        self,
        model: torch.nn.Module,
        held_out: Iterable[Any] | None,
        training: Iterable[Any] | None,
        count: Callable[[], LabelCounter],
    ) -> bool:
        """Align; where that fails, say so instead: hours of training must not end in a traceback.

        Parameters
        ----------
        model : torch.nn.Module
        held_out, training : iterable of batches, optional
            The trainer's data; the first that there is serves, unless the user gave a loader.
        count : callable
            Gives a counter that has seen the training labels; called only if the user gave no counts.

        Returns
        -------
        bool
            Whether there are `shifts_`, `aligned_` and `metrics_` now.
        """
        with warning_instead_of_error("the model was NOT aligned and is as training left it"):
            self._align_in_place(model, *self._source(held_out, training), count)
            return True
        return False

    def report(self) -> str:
        """What happened, for people."""
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
                f"{name.replace('_', ' ')} {100 * self.metrics_[f'{name}_before']:.1f} % -> "
                f"{100 * self.metrics_[f'{name}_after']:.1f} %"
                for name in (key.removesuffix("_after") for key in self.metrics_ if key.endswith("_after"))
            ]
            flattered = ", flattered: the model was trained on them" if shifts.evidence_kind == "training" else ""
            lines.append(f"{', '.join(pairs)} (cross-fitted on these samples{flattered}).")
        return "\n".join(f"energyalign: {line}" for line in lines + self._notes)

    def numbers_to_log(self, prefix: str) -> dict[str, float]:
        """The metrics, and whether it is the trainer's own model that reaches them."""
        folded = 0.0 if self._is_wrapped else 1.0
        return {f"{prefix}{name}": value for name, value in (self.metrics_ | {"folded": folded}).items()}

    def new_counter(self) -> LabelCounter:
        """Count labels of the kind that the model has."""
        return LabelCounter(multilabel=self.multilabel, ignore_index=self.ignore_index)

    def _align_in_place(
        self, model: torch.nn.Module, loader: Iterable[Any], kind: EvidenceKind, count: Callable[[], LabelCounter]
    ) -> None:
        if hasattr(plain_network(model), "shifts_"):
            raise EnergyAlignError("the model is aligned already: is there another EnergyAlignCallback in the list?")
        notes = []
        evidence, probe = collect_evidence(
            model, loader, counts=self.counts, kind=kind, class_names=self.class_names,
            multilabel=self.multilabel, ignore_index=self.ignore_index,
        )  # fmt: skip
        if self.counts is None:
            counted = count().counts(evidence.n_classes)
            if counted is None:
                notes.append("training counts unknown: give counts=... if you know them.")
            else:
                evidence = evidence.with_counts(counted)
        shifts = fit_head(
            evidence, estimator=self.estimator, clusters=self.clusters, target_prior=self.target_prior, tau=self.tau,
            **self.aims,
        )  # fmt: skip
        aligned = fold_or_wrap(model, shifts, probe, head=self.head)
        plain_network(aligned).shifts_ = shifts
        # Only now, when nothing can go wrong with the model any more: a failure to measure must not undo it.
        metrics, problem = _measured(evidence, shifts, aimed=bool(self.aims))
        if problem is not None:
            notes.append(f"accuracy was not measured: {problem}.")
        if aligned is not model:
            notes.append(
                "the shifts could not be folded in: the trainer's own model is unchanged; use callback.aligned_."
            )
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
        raise EnergyAlignError("the trainer has no validation and no training data: give loader= and evidence=.")


@contextlib.contextmanager
def warning_instead_of_error(consequence: str) -> Iterator[None]:
    """Whatever goes wrong inside becomes a warning: the consequence, and why."""
    try:
        yield
    except Exception as error:
        warnings.warn(f"{consequence}: {_said_by(error)}", stacklevel=4)


def _measured(
    evidence: Evidence | MultilabelEvidence, shifts: AnyShifts, *, aimed: bool
) -> tuple[dict[str, float], str | None]:
    """The metrics, or none and why; of independent labels their means.

    They are the accuracies; for other aims the score that the shifts were chosen by. Both are cross-fitted.
    """
    if isinstance(evidence, MultilabelEvidence) and isinstance(shifts, MultilabelShifts):
        each = [_measured(*pair, aimed=aimed) for pair in zip(evidence.labels, shifts.labels, strict=True)]
        problem = next((problem for _, problem in each if problem is not None), None)
        return {} if problem else {name: fmean(own[name] for own, _ in each) for name in each[0][0]}, problem
    assert isinstance(evidence, Evidence)
    assert isinstance(shifts, Shifts)
    if evidence.labels is None:
        return {}, "the evidence has no labels"
    if aimed:
        return _score_of_the_aim(shifts)
    try:
        metrics = _as_metrics(before_and_after(evidence, shifts))
    except Exception as error:
        return {}, _said_by(error)
    if not all(map(math.isfinite, metrics.values())):
        return {}, "a class needs two samples, one to fit and one to score, and no class has them"
    return metrics, None


def _score_of_the_aim(shifts: Shifts) -> tuple[dict[str, float], str | None]:
    selection = shifts.selection
    if selection is None or selection.gain is None:
        return {}, "it takes two samples of a class that the model was not trained on, one to fit and one to score"
    after = selection.candidates[selection.chosen].score or 0.0
    return {f"{shifts.scoring}_before": after - selection.gain, f"{shifts.scoring}_after": after}, None


def _as_metrics(scores: BeforeAfter) -> dict[str, float]:
    return {
        f"{name}_{when}": float(getattr(score, name))
        for name in ("accuracy", "balanced_accuracy")
        for when, score in zip(("before", "after"), scores, strict=True)
    }


def _said_by(error: Exception) -> str:
    """Our own messages explain themselves; others need to be told by their kind."""
    return str(error) if isinstance(error, EnergyAlignError) else f"{type(error).__name__}: {error}"
