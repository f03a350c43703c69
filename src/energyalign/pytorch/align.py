"""Align a trained network in one call."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any, Unpack

import torch

from energyalign.core.evidence import EvidenceKind
from energyalign.core.heads import IGNORE_INDEX
from energyalign.core.multilabel import fit_head
from energyalign.core.names import Counts
from energyalign.core.objectives import Aims
from energyalign.core.sharing import SharingChoice
from energyalign.pytorch.collect import collect_evidence
from energyalign.pytorch.fold import fold_or_wrap, refuse_aligned
from energyalign.pytorch.inference import plain_network


def align(
    model: torch.nn.Module,
    loader: Iterable[Any],
    *,
    counts: Counts | None = None,
    estimator: str = "auto",
    clusters: SharingChoice = "auto",
    target_prior: Counts | None = None,
    evidence: EvidenceKind = "training",
    head: str | None = None,
    class_names: Sequence[str] | None = None,
    tau: float = 1.0,
    strength: float = 1.0,
    multilabel: bool = False,
    ignore_index: int = IGNORE_INDEX,
    inplace: bool = False,
    **aims: Unpack[Aims],
) -> torch.nn.Module:
    """Return a copy of the network without its class-imbalance bias.

    The model runs over the loader once, in evaluation mode; modes, running statistics and random states are restored.
    The shifts are folded into the bias of its head and verified on a batch.

    Parameters
    ----------
    model : torch.nn.Module
        Must return logits, or an output with ``.logits`` (Hugging Face), of shape (n, classes); (n,) or (n, 1) for one
        logit of two classes; (n, tokens, classes); or (n, classes, height, width).
    loader : iterable of batches, Dataset, or tuple of two arrays
        Batches are ``(inputs, labels)``, inputs alone, or dicts of named inputs with or without ``labels``. A
        class-balanced sample, or a labelled one of any balance; see `balanced_evidence`.
    counts : array of shape (n_classes,), dict, Counter, pandas Series or DataFrame, or Dataset with `targets`, \
default=None
        Training samples per class, by name if they have names.
    estimator, clusters, target_prior, tau
        As for `energyalign.fit_shifts`.
    strength : float, default=1.0
        Factor of the fitted shifts: 0 is the raw model. See `Shifts.scaled`.
    evidence : {"training", "out-of-fold", "held-out"}, default="training"
        Whether the model was trained on the samples of the loader.
    head : str, default=None
        Name of the module that computes the logits; by default it is searched for.
    class_names : sequence of str, default=None
        Names of the columns of the logits; by default the ``classes`` of the loader's dataset.
    multilabel : bool, default=False
        Whether the model has independent labels, each with a sigmoid. The labels of a batch are then a matrix of 0 and
        1, and `counts` has the shape (n_labels, 2): training samples without and with each label.
    ignore_index : int, default=-100
        Label of tokens and pixels to leave out.
    inplace : bool, default=False
        Change `model` itself instead of a copy. A copy has no wrapper of `torch.compile` or data parallelism.
    **aims : scoring, costs, minimum_recall, minimum_precision
        The objective, as for `energyalign.fit_shifts`.

    Returns
    -------
    torch.nn.Module
        The aligned network. Its ``state_dict`` differs only in the bias of the head. Its attribute ``shifts_`` holds
        the `Shifts` (or `MultilabelShifts`).
    """
    refuse_aligned(plain_network(model))
    collected, probe = collect_evidence(
        model, loader, counts=counts, kind=evidence, class_names=class_names,
        multilabel=multilabel, ignore_index=ignore_index,
    )  # fmt: skip
    fitted = fit_head(collected, estimator=estimator, clusters=clusters, target_prior=target_prior, tau=tau, **aims)
    shifts = fitted.scaled(strength)
    with torch.inference_mode(False):  # parameters created in inference mode cannot be trained
        aligned = fold_or_wrap(model if inplace else copy.deepcopy(plain_network(model)), shifts, probe, head=head)
    aligned.shifts_ = plain_network(aligned).shifts_ = shifts
    return aligned
