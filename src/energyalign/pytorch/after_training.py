"""Aligning a model where its training ends: what the trainers' callbacks have in common."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from energyalign.core.before_after import BeforeAfter, before_and_after
from energyalign.core.errors import EnergyAlignError
from energyalign.core.evidence import EvidenceKind
from energyalign.core.fitting import fit_shifts
from energyalign.core.sharing import SharingChoice
from energyalign.core.shifts import Shifts
from energyalign.pytorch.collect import collect_evidence
from energyalign.pytorch.fold import fold_or_wrap
from energyalign.pytorch.label_counts import LabelCounter


class AfterTraining:
    """Aligns a model in place and measures it before and after.

    If that fails, a warning says why and the model is as training left it.

    Parameters
    ----------
    loader : iterable of batches, optional
        The evidence. By default the trainer's validation data, or its training data if it has no other.
    evidence : {"training", "out-of-fold", "held-out"}, optional
        Whether the model was trained on what `loader` yields; needed with `loader`, and known otherwise.
    counts : array of shape (n_classes,), optional
        Training samples per class; by default the labels of the training data are counted.
    estimator, clusters, target_prior, head, class_names, tau
        As for `energyalign.pytorch.align`.

    Attributes
    ----------
    shifts_ : Shifts
        What was added to the logits.
    aligned_ : torch.nn.Module
        The trainer's own model, or an `AlignedModel` around it where folding is impossible (with a warning).
    metrics_ : dict of str to float
        ``accuracy_before``, ``accuracy_after``, ``balanced_accuracy_before``, ...: on the evidence, every sample
        corrected by shifts from the others. Empty without labels.
    """

    shifts_: Shifts
    aligned_: torch.nn.Module
    metrics_: dict[str, float]

    def __init__(
        self,
        loader: Iterable[Any] | None = None,
        *,
        evidence: EvidenceKind | None = None,
        counts: npt.ArrayLike | None = None,
        estimator: str = "auto",
        clusters: SharingChoice = "auto",
        target_prior: npt.ArrayLike | None = None,
        head: str | None = None,
        class_names: Sequence[str] | None = None,
        tau: float = 1.0,
    ) -> None:
        super().__init__()
        if (loader is None) != (evidence is None):
            raise EnergyAlignError(
                "give loader= and evidence= together: only you know whether the model was trained on what it yields "
                "('training') or not ('held-out')."
            )
        self.loader, self.evidence, self.counts = loader, evidence, counts
        self.estimator, self.clusters, self.target_prior, self.tau = estimator, clusters, target_prior, tau
        self.head, self.class_names = head, class_names

    def align_or_warn(
        self,
        model: torch.nn.Module,
        held_out: Iterable[Any] | None,
        training: Iterable[Any] | None,
        counter: LabelCounter,
    ) -> bool:
        """Align; where that fails, say so instead: hours of training must not end in a traceback."""
        try:
            self.align_in_place(model, held_out, training, counter)
        except EnergyAlignError as error:
            warnings.warn(f"the model was NOT aligned and is as training left it: {error}", stacklevel=3)
            return False
        return True

    def align_in_place(
        self,
        model: torch.nn.Module,
        held_out: Iterable[Any] | None,
        training: Iterable[Any] | None,
        counter: LabelCounter,
    ) -> None:
        """Collect, fit, measure and fold; `counter` has seen the trainer's labels."""
        loader, kind = self._source(held_out, training)
        names = None if self.class_names is None else list(self.class_names)
        evidence, probe = collect_evidence(model, loader, counts=self.counts, kind=kind, class_names=names)
        counted = counter.counts(evidence.n_classes) if self.counts is None else None
        if counted is not None:
            evidence = evidence.with_counts(counted)
        self.shifts_ = fit_shifts(
            evidence, estimator=self.estimator, clusters=self.clusters, target_prior=self.target_prior, tau=self.tau
        )
        self.metrics_ = {} if evidence.labels is None else _as_metrics(before_and_after(evidence, self.shifts_))
        self.aligned_ = fold_or_wrap(model, self.shifts_, probe, head=self.head)

    def report(self) -> str:
        """What happened, for people."""
        shifts = self.shifts_
        lines = [
            f"energyalign: {shifts.estimator} ({shifts.clusters.name}) on {shifts.n_samples:,.0f} "
            f"{shifts.evidence_kind} samples; shifts from {np.min(shifts.values):+.2f} to {np.max(shifts.values):+.2f}."
        ]
        if self.metrics_:
            pairs = [
                f"{name.replace('_', ' ')} {100 * self.metrics_[f'{name}_before']:.1f} % -> "
                f"{100 * self.metrics_[f'{name}_after']:.1f} %"
                for name in ("accuracy", "balanced_accuracy")
            ]
            flattered = ", flattered: the model was trained on them" if shifts.evidence_kind == "training" else ""
            lines.append(f"energyalign: {', '.join(pairs)} (cross-fitted on these samples{flattered}).")
        return "\n".join(lines)

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


def _as_metrics(scores: BeforeAfter) -> dict[str, float]:
    return {
        f"{name}_{when}": float(getattr(score, name))
        for name in ("accuracy", "balanced_accuracy")
        for when, score in zip(("before", "after"), scores, strict=True)
    }
