"""Three lines from a trained network to a balanced one."""

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
    """A network of the same architecture that predicts without the class-imbalance bias of this one.

    The model runs over the loader once, in evaluation mode; modes, running statistics and random states are as
    before afterwards. The shifts are folded into the bias of its head and verified on a batch.

    Parameters
    ----------
    model : torch.nn.Module
        Returns logits, or an output with ``.logits`` (Hugging Face): (n, classes), (n,) or (n, 1) for one logit of
        two classes, (n, tokens, classes), or (n, classes, height, width).
    loader : iterable of batches, Dataset, or tuple of two arrays
        ``(inputs, labels)``, inputs alone, or dicts of named inputs with or without ``labels``. A class-balanced
        sample, or a labelled one of any balance; see `balanced_evidence`.
    counts : array of shape (n_classes,), dict, Counter, pandas Series or DataFrame, or Dataset with `targets`, optional
        Training samples per class, by name wherever they have names.
    estimator, clusters, target_prior, tau
        As for `energyalign.fit_shifts`.
    strength : float, default=1.0
        What the fitted shifts are multiplied by: 0 is the raw model. See `Shifts.scaled`.
    evidence : {"training", "out-of-fold", "held-out"}
        Whether the model was trained on what the loader yields.
    head : str, optional
        Name of the module that makes the logits, if it is not found by itself.
    class_names : sequence of str, optional
        Of the columns of the logits; by default the ``classes`` of the loader's dataset.
    multilabel : bool, default=False
        Whether the model has independent labels, each with a sigmoid; the labels of a batch are then a matrix of 0 and
        1, and `counts` (n_labels, 2), training samples without and with each label.
    ignore_index : int, default=-100
        Label of tokens and pixels that are left out.
    inplace : bool
        Change `model` itself instead of a copy. The copy is of the network alone, without what `torch.compile` or data
        parallelism put around it.
    **aims : scoring, costs, minimum_recall, minimum_precision
        What the predictions should be best at, as for `energyalign.fit_shifts`.

    Returns
    -------
    torch.nn.Module
        Its ``state_dict`` differs only in the bias of the head. The `Shifts` (or `MultilabelShifts`) are its attribute
        ``shifts_``.
    """
    refuse_aligned(plain_network(model))
    found, probe = collect_evidence(
        model, loader, counts=counts, kind=evidence, class_names=class_names,
        multilabel=multilabel, ignore_index=ignore_index,
    )  # fmt: skip
    fitted = fit_head(found, estimator=estimator, clusters=clusters, target_prior=target_prior, tau=tau, **aims)
    shifts = fitted.scaled(strength)
    with torch.inference_mode(False):  # a network made in that mode could never be trained
        aligned = fold_or_wrap(model if inplace else copy.deepcopy(plain_network(model)), shifts, probe, head=head)
    aligned.shifts_ = plain_network(aligned).shifts_ = shifts
    return aligned
